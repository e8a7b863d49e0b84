"""ImportHook: modules are seen after they ran and before their importer goes on."""

import os
import sys
import tempfile
import unittest

import support
from hapmoe_profiler.imports import ImportHook


class ImportHookTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.before = list(sys.meta_path)
        sys.path.insert(0, folder.name)
        self.addCleanup(sys.path.remove, folder.name)
        package = os.path.join(folder.name, "hooked")
        os.mkdir(package)
        files = {
            "__init__.py": "from .inner import value\n",
            "inner.py": "value = 1\n",
            "broken.py": "raise RuntimeError('as it would without a hook')\n",
        }
        for name, text in files.items():
            with open(os.path.join(package, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.addCleanup(self._forget)

    def _forget(self) -> None:
        for name in [name for name in sys.modules if name.split(".")[0] == "hooked"]:
            del sys.modules[name]
        self.assertEqual(sys.meta_path, self.before)

    def test_importers_see_what_the_callback_left(self) -> None:
        hook = ImportHook({"hooked.inner": lambda module: setattr(module, "value", 2)})
        hook.install()
        import hooked

        self.assertEqual(hooked.value, 2)
        self.assertEqual(hooked.inner.__spec__.name, "hooked.inner")
        self.assertEqual(type(hooked.inner.__loader__).__name__, "SourceFileLoader")

    def test_calls_back_for_modules_that_are_there(self) -> None:
        import hooked.inner

        seen = []
        ImportHook({"hooked.inner": seen.append}).install()
        self.assertEqual(seen, [hooked.inner])

    def test_leaves_errors_of_a_module_as_they_are(self) -> None:
        seen = []
        hook = ImportHook({"hooked.broken": seen.append})
        hook.install()
        with self.assertRaisesRegex(RuntimeError, "as it would"):
            import hooked.broken
        self.assertEqual(seen, [])
        hook.remove()

    def test_modules_that_are_nowhere_are_not_found(self) -> None:
        hook = ImportHook({"hooked.nowhere": lambda module: None})
        hook.install()
        with self.assertRaises(ModuleNotFoundError):
            import hooked.nowhere
        hook.remove()


if __name__ == "__main__":
    support.main()
