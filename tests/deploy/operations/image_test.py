"""Dockerfile: what can be said of it without building it.

deploy/image.sh builds it and tries what it holds.
"""

from __future__ import annotations

import json
import os
import re
import unittest

import support

# Needed beside a build: what runs scripts of jobs, and what makes builds quick.
NOT_FOR_BUILDING = {"bubblewrap", "ccache"}


def dockerfile() -> list[str]:
    """Its instructions, each on one line."""
    with open(os.path.join(support.ROOT, "Dockerfile"), encoding="utf-8") as file:
        text = re.sub(r"^#.*\n", "", file.read(), flags=re.M)
    return [line for line in text.replace("\\\n", " ").splitlines() if line]


def values(instruction: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in dockerfile() if line.startswith(instruction + " ")]


class DockerfileTest(unittest.TestCase):
    def test_stages_start_from_an_image_that_the_builder_chooses(self) -> None:
        self.assertEqual(values("ARG")[0], "BASE=debian:bookworm-slim")
        self.assertEqual(values("FROM"), ["${BASE} AS build", "${BASE}"])

    def test_installs_what_the_scripts_install(self) -> None:
        listed = (
            re.search(r"^BUILD_PACKAGES=\((.*?)\)", support.read("common.sh"), re.M | re.S)
            .group(1)
            .split()
        )
        installed = re.search(r"--no-install-recommends (.*?)&&", values("RUN")[0]).group(1).split()
        self.assertEqual(sorted(installed), sorted(set(listed) - NOT_FOR_BUILDING))

    def test_runs_as_a_user_without_rights(self) -> None:
        (user,) = values("USER")
        self.assertRegex(user, r"^[1-9]\d*:[1-9]\d*$")
        self.assertIn(
            f"install -d -o {user.split(':')[0]} -g {user.split(':')[1]} -m 0700 {values('VOLUME')[0]}",
            re.sub(r" +", " ", values("RUN")[-1]),
        )

    def test_flags_are_the_servers_own_and_fit_the_image(self) -> None:
        flags = dict(flag.removeprefix("--").split("=", 1) for flag in json.loads(values("CMD")[0]))
        self.assertLessEqual(set(flags), set(support.server_flags()))
        self.assertEqual(flags["state_dir"], values("VOLUME")[0])
        ports = {flags[name].rsplit(":", 1)[1] for name in ("listen", "metrics_listen")}
        self.assertEqual(ports, set(values("EXPOSE")[0].split()))

    def test_health_is_asked_of_the_server(self) -> None:
        command = json.loads(values("HEALTHCHECK")[0].split(" CMD ")[1])
        # Where the server listens is where the client asks when it is not told.
        self.assertEqual(command[:2], ["hapmoe", "info"])
        with support.Server() as server:
            self.assertEqual(server.client(*command[1:]).returncode, 0)
        self.assertNotEqual(server.client(*command[1:]).returncode, 0)


if __name__ == "__main__":
    support.main()
