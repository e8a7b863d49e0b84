"""Files are there as a whole or not at all."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support
from hapmoe_profiler import files

WRITER = """
import sys
from hapmoe_profiler import files
print("begun", flush=True)
while True:
    files.write_json(sys.argv[1], {"numbers": list(range(200000))})
"""


class WriteJsonTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "deeper", "file.json")

    def test_writes_folders_and_file(self) -> None:
        files.write_json(self.path, {"a": [1, 2.5]})
        self.assertEqual(files.read_json(self.path), {"a": [1, 2.5]})
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["file.json"])

    def test_what_is_no_json_leaves_the_file_as_it_was(self) -> None:
        files.write_json(self.path, 1)
        for value in (float("nan"), object()):
            with self.subTest(value=value), self.assertRaises((ValueError, TypeError)):
                files.write_json(self.path, value)
        self.assertEqual(files.read_json(self.path), 1)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["file.json"])

    def test_a_torn_file_is_named(self) -> None:
        files.write_json(self.path, 1)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("[1, 2")
        with self.assertRaisesRegex(ValueError, "file.json: not JSON"):
            files.read_json(self.path)

    def test_killed_at_any_time_the_file_is_whole(self) -> None:
        seed = random.randrange(2**32)
        print("seed", seed)
        chance = random.Random(seed)
        for _ in range(10):
            process = subprocess.Popen(
                [sys.executable, "-c", WRITER, self.path],
                env=support.environment(support.PACKAGE),
                stdout=subprocess.PIPE,
            )
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.4))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            if os.path.exists(self.path):
                with open(self.path, encoding="utf-8") as file:
                    self.assertEqual(len(json.load(file)["numbers"]), 200000)


if __name__ == "__main__":
    support.main()
