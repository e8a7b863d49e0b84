"""Patch: the wrapped function is called once whatever the wrapper does."""

import types
import unittest

import support
from hapmoe_profiler.patches import Patch, Patches


class Owner:
    def double(self, value: int) -> int:
        """Twice the value."""
        if value < 0:
            raise ValueError("negative")
        return 2 * value

    @staticmethod
    def plain() -> int:
        return 1


def fail(*_: object) -> None:
    raise RuntimeError("the hook fails")


class PatchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.original = Owner.double
        self.calls = []
        self.addCleanup(setattr, Owner, "double", self.original)

    def test_sees_arguments_and_results(self) -> None:
        patch = Patch(
            "double",
            lambda args, kwargs: args[1],
            lambda token, result, args, kwargs: self.calls.append((token, result)),
        )
        self.assertTrue(patch.install(Owner, "double"))
        self.assertEqual(Owner().double(3), 6)
        self.assertEqual(self.calls, [(3, 6)])
        self.assertEqual(Owner.double.__doc__, "Twice the value.")
        patch.remove()
        self.assertIs(Owner.double, self.original)

    def test_a_failing_hook_goes_and_the_call_stays(self) -> None:
        for before, after in ((fail, None), (None, fail), (fail, fail)):
            with self.subTest(before=before, after=after):
                patch = Patch("double", before, after)
                patch.install(Owner, "double")
                self.assertEqual(Owner().double(3), 6)
                self.assertFalse(patch.live)
                self.assertIs(Owner.double, self.original)

    def test_exceptions_reach_the_caller_once_the_hook_knows(self) -> None:
        patch = Patch("double", None, lambda token, result, args, kwargs: self.calls.append(result))
        patch.install(Owner, "double")
        with self.assertRaisesRegex(ValueError, "negative"):
            Owner().double(-1)
        self.assertEqual(self.calls, [None])
        self.assertTrue(patch.live)
        patch.remove()

    def test_a_failing_hook_does_not_hide_an_exception(self) -> None:
        Patch("double", None, fail).install(Owner, "double")
        with self.assertRaisesRegex(ValueError, "negative"):
            Owner().double(-1)

    def test_passes_calls_on_where_somebody_wrapped_it_since(self) -> None:
        patch = Patch("double", lambda args, kwargs: self.calls.append(args[1]), None)
        patch.install(Owner, "double")
        ours = Owner.double
        Owner.double = lambda self, value: ours(self, value) + 1
        patch.remove()
        self.assertEqual(Owner().double(3), 7)
        self.assertEqual(self.calls, [])

    def test_what_is_missing_or_no_function_is_not_wrapped(self) -> None:
        module = types.ModuleType("module")
        module.number = 3
        for owner, name in ((Owner, "triple"), (Owner, "plain"), (module, "number")):
            with self.subTest(name=name):
                self.assertFalse(Patch(name).install(owner, name))

    def test_all_go_together(self) -> None:
        patches = Patches()
        self.assertTrue(patches.add(Patch("first"), Owner, "double"))
        self.assertTrue(patches.add(Patch("second"), Owner, "double"))
        self.assertEqual(patches.live(), ["first", "second"])
        patches.remove()
        self.assertIs(Owner.double, self.original)


if __name__ == "__main__":
    support.main()
