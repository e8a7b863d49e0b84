"""Fields and types of Kubernetes' kinds, as kinds.json holds them."""

from __future__ import annotations

import json
import os
import re

QUANTITY = re.compile(r"\d+(\.\d+)?([KMGTPE]i|[munkMGTPE])?")


class Kinds:
    """Checks objects against the fields and types of their kinds."""

    def __init__(self) -> None:
        with open(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "kinds.json"), encoding="utf-8"
        ) as file:
            model = json.load(file)
        self._kinds, self._types = model["kinds"], model["types"]

    def faults(self, thing: dict) -> list[str]:
        kind = f"{thing.get('apiVersion')} {thing.get('kind')}"
        if kind not in self._kinds:
            return [f"unknown kind {kind}"]
        return list(self._check(thing, self._kinds[kind], thing["kind"]))

    def _check(self, value: object, notation: str, path: str):
        if notation.startswith("[]"):
            if not isinstance(value, list):
                yield f"{path}: no list"
                return
            for i, one in enumerate(value):
                yield from self._check(one, notation[2:], f"{path}[{i}]")
        elif notation.startswith("{}"):
            if not isinstance(value, dict):
                yield f"{path}: no map"
                return
            for key, one in value.items():
                yield from self._check(one, notation[2:], f"{path}.{key}")
        elif notation in self._types:
            fields = self._types[notation]
            if not isinstance(value, dict):
                yield f"{path}: no {notation}"
                return
            for key, one in value.items():
                if key not in fields:
                    yield f"{path}.{key}: unknown"
                else:
                    yield from self._check(one, fields[key].rstrip("!"), f"{path}.{key}")
            for key, field in fields.items():
                if field.endswith("!") and key not in value:
                    yield f"{path}.{key}: missing"
        elif not self._is_scalar(value, notation):
            yield f"{path}: {value!r} is no {notation}"

    @staticmethod
    def _is_scalar(value: object, notation: str) -> bool:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return {
            "any": True,
            "string": isinstance(value, str),
            "bool": isinstance(value, bool),
            "int": whole,
            "number": whole or isinstance(value, float),
            "name_or_number": whole or isinstance(value, str),
            "quantity": whole or (isinstance(value, str) and QUANTITY.fullmatch(value) is not None),
        }[notation]
