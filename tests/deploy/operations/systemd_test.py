"""deploy/systemd/hapmoed.service: is read, is hardened, and a server does nothing that it forbids."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import unittest

import support

UNIT = "hapmoed.service"
# Of 10; systemd calls up to 1.5 safe. What is left is the network, which is what the service is for.
MOST_EXPOSURE_TENTHS = 10
# How long a drain goes on after its grace: server/server.cc, kInterruptedGrace and kSendingGrace.
AFTER_GRACE_SECONDS = 2.5
# What starts the server, and what SQLite does for root alone.
NOT_IN_THE_UNIT = {"execve", "fchown"}


def settings() -> list[tuple[str, str]]:
    """Every NAME=VALUE of the unit, in its order."""
    return re.findall(r"^(\w+)=(.*)$", support.read("systemd", UNIT), re.M)


def value_of(name: str) -> str:
    (value,) = (value for key, value in settings() if key == name)
    return value


def system_calls(names: list[str]) -> set[str]:
    """The system calls of sets such as @system-service, and single ones."""
    calls = set()
    for name in names:
        if not name.startswith("@"):
            calls.add(name)
            continue
        listed = support.run(
            "systemd-analyze", "--no-pager", "syscall-filter", name
        ).stdout.splitlines()
        calls |= system_calls([line.strip() for line in listed[1:] if re.match(r"\s+[@\w]", line)])
    return calls


def allowed_system_calls() -> set[str]:
    allowed: set[str] = set()
    for name, value in settings():
        if name == "SystemCallFilter":
            named = system_calls(value.removeprefix("~").split())
            allowed = allowed - named if value.startswith("~") else allowed | named
    return allowed


class UnitTest(unittest.TestCase):
    def analyze(self, *arguments: str) -> subprocess.CompletedProcess:
        """systemd-analyze on the unit with the programs where they are now."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, UNIT)
            with open(path, "w", encoding="utf-8") as file:
                file.write(
                    support.read("systemd", UNIT).replace("/usr/local/bin", support.BINARIES)
                )
            return support.run("systemd-analyze", "--no-pager", *arguments, path)

    def test_systemd_reads_it(self) -> None:
        verified = self.analyze("verify")
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))

    def test_is_hardened(self) -> None:
        rated = self.analyze("security", "--offline=true", f"--threshold={MOST_EXPOSURE_TENTHS}")
        self.assertEqual(rated.returncode, 0, rated.stdout)
        self.assertIn("Overall exposure level", rated.stdout)

    def test_flags_are_the_servers_own(self) -> None:
        flags = re.findall(r"--(\w+)", value_of("ExecStart"))
        self.assertGreaterEqual(len(flags), 2)
        self.assertLessEqual(set(flags), set(support.server_flags()))

    def test_is_given_the_time_to_drain(self) -> None:
        grace = float(re.search(r"--drain_grace=(\d+)s", value_of("ExecStart")).group(1))
        self.assertGreaterEqual(float(value_of("TimeoutStopSec")), grace + AFTER_GRACE_SECONDS + 5)

    def test_alert_on_memory_knows_the_limit(self) -> None:
        self.assertEqual(value_of("MemoryMax"), "2G")
        self.assertIn("> 0.9 * 2 * 1024 * 1024 * 1024", support.read("prometheus", "rules.yaml"))


class SystemCallsTest(unittest.TestCase):
    def test_sets_are_taken_apart(self) -> None:
        calls = system_calls(["@system-service"])
        self.assertLessEqual({"read", "futex", "epoll_wait", "accept4"}, calls)
        self.assertNotIn("ptrace", calls)
        self.assertLess(allowed_system_calls(), calls)

    def test_a_server_makes_none_that_is_forbidden(self) -> None:
        traces = subprocess.run(
            ["strace", "--output", os.devnull, "true"], stderr=subprocess.DEVNULL, check=False
        )
        if traces.returncode != 0:
            self.skipTest("strace may trace nothing here")
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace")
            address = f"127.0.0.1:{support.free_port()}"
            process = subprocess.Popen(
                # As a process beside it, so that signals and the status are the server's own.
                [
                    "strace",
                    "--daemonize",
                    "--follow-forks",
                    "--quiet=all",
                    "--output",
                    trace,
                    support.program("hapmoed"),
                    f"--listen={address}",
                    f"--metrics_listen=127.0.0.1:{support.free_port()}",
                    f"--state_dir={folder}",
                ],
                stderr=subprocess.DEVNULL,
            )
            try:
                self.call_everything(address)
            finally:
                process.terminate()
            self.assertEqual(process.wait(timeout=60), 0)
            traced = support.read(trace)
        made = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", traced, re.M))
        self.assertIn("accept4", made)  # Of a server that had calls.
        self.assertEqual(made - allowed_system_calls() - NOT_IN_THE_UNIT, set())
        self.assertLessEqual(
            set(re.findall(r" socket\((AF_\w+)", traced)),
            set(value_of("RestrictAddressFamilies").split()),
        )
        # MemoryDenyWriteExecute: no memory is both, and none that was written is made executable.
        self.assertNotRegex(traced, r"PROT_WRITE\|PROT_EXEC|mprotect\([^)]*PROT_EXEC")

    def call_everything(self, address: str) -> None:
        """A plan, and what is written."""
        end = time.monotonic() + support.SERVER_STARTS_WITHIN_SECONDS
        job = [
            "--script",
            os.path.join(support.EXAMPLES, "mixtral-8x7b.sh"),
            "--script-reading",
            "static",
            "--cluster",
            os.path.join(support.EXAMPLES, "h800-a100.yaml"),
        ]
        for command in (
            ["info"],
            ["plan", *job],
            ["report", *job, "--seconds", "6", "--world-size", "32"],
        ):
            while True:
                called = support.run(support.program("hapmoe"), *command, "--server", address)
                if called.returncode != 3 or time.monotonic() > end:
                    break
            self.assertEqual(called.returncode, 0, called.stderr)


if __name__ == "__main__":
    support.main()
