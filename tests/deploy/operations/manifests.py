"""The overlays of deploy/kubernetes, built with kustomize.

KUBECTL names the program that builds; kubectl when left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile

import support
import yaml

KUBECTL = os.environ.get("KUBECTL", "kubectl")
UNITS = {"Mi": 2**20, "Gi": 2**30, "": 1, "m": 1e-3}


def build(overlay: str) -> str:
    """What an overlay comes to."""
    version = support.run(KUBECTL, "version", "--client", "--output=json").stdout
    minor = int(re.match(r"\d+", json.loads(version)["clientVersion"]["minor"]).group())
    with tempfile.TemporaryDirectory() as folder:
        tree = shutil.copytree(
            os.path.join(support.DEPLOY, "kubernetes"), os.path.join(folder, "tree")
        )
        if minor < 21:
            say_it_in_old_words(tree)
        built = support.run(KUBECTL, "kustomize", os.path.join(tree, overlay))
    if built.returncode != 0 or built.stderr:
        raise AssertionError(f"{overlay}: {built.stderr}")
    return built.stdout


def say_it_in_old_words(tree: str) -> None:
    """Debian's kubectl holds kustomize 2, which has other names for folders and patches."""
    for overlay in ("single", "replicas", "tls"):
        path = os.path.join(tree, overlay, "kustomization.yaml")
        with open(path, encoding="utf-8") as file:
            said = yaml.safe_load(file)
        patches = said.pop("patches")
        said["bases"] = [r for r in said["resources"] if not r.endswith(".yaml")]
        said["resources"] = [r for r in said["resources"] if r.endswith(".yaml")]
        said["patchesStrategicMerge"] = [p["path"] for p in patches if "target" not in p]
        said["patchesJson6902"] = [p for p in patches if "target" in p]
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(said, file)


def amount(quantity: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", quantity).groups()
    return float(number) * UNITS[unit]


class Built:
    """The objects of an overlay."""

    def __init__(self, overlay: str) -> None:
        self.objects = list(yaml.safe_load_all(build(overlay)))

    def of_kind(self, kind: str) -> list[dict]:
        return [thing for thing in self.objects if thing["kind"] == kind]

    @property
    def pod(self) -> dict:
        return self.of_kind("Deployment")[0]["spec"]["template"]

    @property
    def container(self) -> dict:
        return self.pod["spec"]["containers"][0]

    @property
    def flags(self) -> dict[str, str]:
        return dict(flag.removeprefix("--").split("=", 1) for flag in self.container["args"])
