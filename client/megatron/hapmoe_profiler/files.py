"""Files that are there as a whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any


def write_json(path: str, value: Any, indent: int | None = 1) -> None:
    """Writes `value` beside `path` and renames it, so that no reader and no crash sees a part.

    OSError where the folder cannot be written; ValueError for numbers that JSON does not have.
    """
    text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".hapmoe-", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def read_json(path: str) -> Any:
    """Reads a file. OSError, or ValueError that names the file where it is not JSON."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
