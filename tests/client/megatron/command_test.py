"""How the profiler is switched on, and that it costs nothing where it is not."""

import os
import subprocess
import sys
import tempfile
import unittest

import support
from hapmoe_profiler.settings import Settings

# Prints which of the modules that matter have been imported, and the finders that are not Python's.
STATE = (
    "import sys; print([m for m in ('torch', 'hapmoe_profiler') if m in sys.modules], "
    "[type(f).__name__ for f in sys.meta_path if type(f).__name__ == 'ImportHook'], sys.argv)"
)


class SettingsTest(unittest.TestCase):
    def test_off_without_the_variable(self) -> None:
        self.assertIsNone(Settings.from_environment({}))
        self.assertIsNone(Settings.from_environment({"HAPMOE_PROFILE": ""}))

    def test_goes_through_the_environment_and_back(self) -> None:
        settings = Settings("/out", 1, 2, 0.5, "H800", "plan")
        self.assertEqual(Settings.from_environment(settings.to_environment()), settings)

    def test_says_which_variable_is_wrong(self) -> None:
        for name, text in (
            ("SKIP", "-1"),
            ("ITERATIONS", "0"),
            ("BENCH_SECONDS", "soon"),
            ("ITERATIONS", "nan"),
            ("BENCH_SECONDS", "inf"),
        ):
            variables = {"HAPMOE_PROFILE": "x", "HAPMOE_PROFILE_" + name: text}
            with self.subTest(name=name, text=text):
                with self.assertRaisesRegex(ValueError, "HAPMOE_PROFILE_" + name):
                    Settings.from_environment(variables)


class SwitchTest(unittest.TestCase):
    def run_python(self, *command: str, paths: tuple[str, ...] = (), **variables: str) -> str:
        answer = subprocess.run(
            [sys.executable, *command],
            env=support.environment(*paths, **variables),
            check=True,
            capture_output=True,
            text=True,
        )
        return (answer.stdout + answer.stderr).strip()

    def test_off_imports_nothing(self) -> None:
        found = self.run_python("-c", STATE, paths=(support.SWITCH,))
        self.assertEqual(found, "[] [] ['-c']")

    def test_joining_files_needs_no_torch(self) -> None:
        state = "import hapmoe_profiler.merge; " + STATE
        found = self.run_python("-c", state, paths=(support.PACKAGE,))
        self.assertEqual(found, "['hapmoe_profiler'] [] ['-c']")

    def test_on_waits_for_the_job_without_torch(self) -> None:
        found = self.run_python("-c", STATE, paths=(support.SWITCH,), HAPMOE_PROFILE="out")
        self.assertEqual(found, "['hapmoe_profiler'] ['ImportHook'] ['-c']")

    def test_the_next_sitecustomize_runs_too(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write("print('the site')\n")
            for variables in ({}, {"HAPMOE_PROFILE": "out"}):
                found = self.run_python("-c", "pass", paths=(support.SWITCH, folder), **variables)
                self.assertEqual(found, "the site")

    def test_a_wrong_variable_does_not_stop_the_job(self) -> None:
        found = self.run_python(
            "-c",
            "print('trained')",
            paths=(support.SWITCH,),
            HAPMOE_PROFILE="out",
            HAPMOE_PROFILE_SKIP="often",
        )
        self.assertIn("trained", found)
        self.assertIn("HAPMOE_PROFILE_SKIP must be a number", found)

    def test_the_command_runs_a_script_as_python_does(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script.py")
            with open(os.path.join(folder, "beside.py"), "w", encoding="utf-8") as file:
                file.write("value = 7\n")
            with open(script, "w", encoding="utf-8") as file:
                file.write(
                    "import sys, beside\n"
                    "print(__name__, beside.value, sys.argv[1:])\n"
                    "sys.exit(int(sys.argv[1]))\n"
                )
            answer = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "hapmoe_profiler",
                    "--skip",
                    "1",
                    script,
                    "3",
                    "--skip",
                    "x",
                ],
                env=support.environment(support.PACKAGE),
                cwd=folder,
                capture_output=True,
                text=True,
            )
            self.assertEqual(answer.stdout.strip(), "__main__ 7 ['3', '--skip', 'x']")
            self.assertEqual((answer.returncode, answer.stderr), (3, ""))
            self.assertEqual(sorted(os.listdir(folder)), ["beside.py", "script.py"])
            module = subprocess.run(
                [sys.executable, "-m", "hapmoe_profiler", "-m", "script", "4"],
                env=support.environment(support.PACKAGE),
                cwd=folder,
                capture_output=True,
                text=True,
            )
            self.assertEqual(module.stdout.strip(), "__main__ 7 ['4']")
            self.assertEqual(module.returncode, 4)

    def test_wrong_options_are_usage(self) -> None:
        for command in (["--iterations", "0", "x.py"], ["--unknown", "x.py"], []):
            answer = subprocess.run(
                [sys.executable, "-m", "hapmoe_profiler", *command],
                env=support.environment(support.PACKAGE),
                capture_output=True,
                text=True,
            )
            with self.subTest(command=command):
                self.assertEqual(answer.returncode, 2)
                self.assertIn("usage", answer.stderr)

    def test_merge_of_nothing_says_so(self) -> None:
        answer = subprocess.run(
            [sys.executable, "-m", "hapmoe_profiler", "merge", "/nonexistent"],
            env=support.environment(support.PACKAGE),
            capture_output=True,
            text=True,
        )
        self.assertEqual(answer.returncode, 2)
        self.assertIn("no file of a rank", answer.stderr)


if __name__ == "__main__":
    support.main()
