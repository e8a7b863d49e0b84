"""Shared by the tests: where things are, the server's flags, and a server that runs."""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DEPLOY = os.path.join(ROOT, "deploy")
EXAMPLES = os.path.join(DEPLOY, "examples")
BINARIES = os.path.join(ROOT, "build", "bin")
SERVER_STARTS_WITHIN_SECONDS = 20

sys.dont_write_bytecode = True


def main() -> None:
    """Runs the tests of the calling module with the programs of --binaries DIR."""
    global BINARIES
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", default=BINARIES)
    options, rest = parser.parse_known_args()
    # The module is imported a second time, as "support", by those that use it.
    sys.modules["support"].BINARIES = os.path.abspath(options.binaries)
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=2)


def program(name: str) -> str:
    return os.path.join(BINARIES, name)


def read(*path: str) -> str:
    """A file below deploy/."""
    with open(os.path.join(DEPLOY, *path), encoding="utf-8") as file:
        return file.read()


def run(*command: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, **options)


def server_flags() -> dict[str, str]:
    """Flags of hapmoed and their values when left out."""
    text = run(program("hapmoed"), "--help").stdout
    return dict(re.findall(r"^ +--(\w+) \(.*?\);\s+default: (.*?);", text, re.S | re.M))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """hapmoed on loopback, for a `with` statement. Clients get `environment` beside the process's own."""

    def __init__(self, *flags: str, environment: dict[str, str] | None = None) -> None:
        self.environment = {**os.environ, **(environment or {})}
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self._command = [
            program("hapmoed"),
            f"--listen={self.address}",
            f"--metrics_listen={self.metrics_address}",
            *flags,
        ]

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + SERVER_STARTS_WITHIN_SECONDS
        while self.client("info", "--deadline", "2").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"no server: {self.process.communicate()[1]}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)

    def command(self, *arguments: str) -> list[str]:
        return [program("hapmoe"), *arguments, "--server", self.address]

    def client(self, *arguments: str) -> subprocess.CompletedProcess:
        return run(*self.command(*arguments), env=self.environment)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=10) as answer:
            return answer.read().decode()
