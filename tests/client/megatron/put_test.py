"""The server takes what the profiler writes: put_test.py --binaries DIR.

Profiles are checked where they are stored, the error that their tables state included.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import merge_test
import support
from hapmoe_profiler import accelerator, files, merge

BINARIES = ""


def hapmoe(address: str, *command: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [os.path.join(BINARIES, "hapmoe"), *command, "--server", address],
        capture_output=True,
        text=True,
    )


def measured() -> dict:
    """A rank that has measured some of everything."""
    rank = merge_test.rank(0, 2)
    gemms = rank["operations"]["gemm"]
    for i in range(2, 14):
        gemms.append(
            {"m": 2**i, "n": 64, "k": 3 * 2**i, "groups": 1, "seconds": 1e-8 * 4.1**i}
        )
    rank["operations"]["grouped_gemm"] = [
        {"m": 2**i, "n": 64, "k": 32, "groups": 4, "seconds": 1e-6 * 2.2**i}
        for i in range(6, 12)
    ]
    for kind, scale in (("attention", 1), ("attention_backward", 3)):
        rank["operations"][kind] = [
            {"m": n, "n": n, "k": 32, "groups": 8, "seconds": scale * 1e-9 * n * n}
            for n in (128, 256, 512, 1024, 2048)
        ]
    rank["collectives"] = [
        {
            "primitive": primitive,
            "kind": "data",
            "ranks": 2,
            "members": [0, 1],
            "bytes": [4096 * 4**i for i in range(6)],
            "seconds": [1e-4, 9e-5, 3e-4, 2e-4, 1e-3, 5e-3],
        }
        for primitive in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")
    ]
    return rank


class PutTest(unittest.TestCase):
    def test_the_server_takes_profiles(self) -> None:
        bases = {
            "unknown": ("fp32", None),
            "H800": ("bf16", accelerator.find("H800")),
            "Ascend 910B3": ("fp16", accelerator.find("Ascend 910B3")),
            "MI300X": ("bf16", accelerator.find("MI300X")),
        }
        with tempfile.TemporaryDirectory() as folder, support.server(BINARIES) as address:
            for name, (width, base) in bases.items():
                rank = measured()
                rank["job"]["bf16"], rank["job"]["fp16"] = width == "bf16", width == "fp16"
                files.write_json(os.path.join(folder, merge.rank_file(0)), rank)
                path = ""
                if base is not None:
                    path = os.path.join(folder, "base.json")
                    files.write_json(path, base)
                with self.subTest(name=name):
                    profile = merge.merge(folder, base=path)[0]
                    answer = hapmoe(address, "profiles", "put", profile)
                    self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                    stored = hapmoe(address, "profiles", "get", rank_name(profile), "-o", "json")
                    tables = json.loads(stored.stdout)["profile"]["tables"]
                    kinds = [table["kind"] for table in tables]
                    self.assertIn("OPERATION_KIND_GROUPED_GEMM", kinds)
                    self.assertEqual(len(kinds), len(set(kinds)) + eights(tables))
                    # What the server knows is found by its name, too.
                    os.remove(os.path.join(folder, merge.rank_file(0)))

    def test_a_table_that_states_too_little_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder, support.server(BINARIES) as address:
            files.write_json(os.path.join(folder, merge.rank_file(0)), measured())
            path = merge.merge(folder)[0]
            profile = files.read_json(path)
            for table in profile["tables"]:
                table["stated_error"] = max(0.0, table["stated_error"] - 0.004)
            files.write_json(path, profile)
            answer = hapmoe(address, "profiles", "put", path)
            self.assertEqual(answer.returncode, 1)
            self.assertIn("table_keeps_stated_error", answer.stderr)


def rank_name(path: str) -> str:
    return files.read_json(path)["accelerator"]


def eights(tables: list) -> int:
    """Tables in 8 bit, which stand beside those of the same kind in 16."""
    return sum(table["precision"] == "PRECISION_FP8" for table in tables)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--binaries":
        BINARIES = os.path.abspath(sys.argv[2])
        del sys.argv[1:3]
    else:
        sys.exit(__doc__)
    support.main()
