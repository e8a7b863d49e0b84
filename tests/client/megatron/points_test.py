"""Every point is where the stand-in has it and, where MEGATRON_LM names a checkout, Megatron-LM."""

import ast
import os
import unittest

import support
from hapmoe_profiler.points import MODULE, POINTS, SPAN, STEP

# What has no place in the stand-in, which has no such parts.
ABSENT = {"parameter_gather", "shared_experts"}


def names(path: str) -> set[str]:
    """Functions and methods that a file defines, under any condition: "f", "C.f"."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found: set[str] = set()

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.add(prefix + child.name)
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(tree, "")
    return found


class PointsTest(unittest.TestCase):
    def measured(self, root: str) -> set[str]:
        """What some point of a tree measures."""
        found: set[str] = set()
        defined: dict[str, set[str]] = {}
        for point in POINTS:
            path = os.path.join(root, *point.module.split(".")) + ".py"
            if point.module not in defined:
                defined[point.module] = names(path) if os.path.exists(path) else set()
            if point.attribute in defined[point.module]:
                found.add(point.what)
        return found

    def test_each_is_listed_once(self) -> None:
        places = [(point.module, point.attribute) for point in POINTS]
        self.assertEqual(len(places), len(set(places)))
        self.assertEqual(sum(point.role == STEP for point in POINTS), 2)
        self.assertTrue({point.role for point in POINTS} >= {STEP, SPAN, MODULE})

    def test_the_stand_in_has_them(self) -> None:
        wanted = {point.what for point in POINTS} - ABSENT
        self.assertEqual(wanted - self.measured(support.STANDIN), set())

    def test_megatron_lm_has_them(self) -> None:
        checkout = os.environ.get("MEGATRON_LM", "")
        if not checkout:
            self.skipTest("MEGATRON_LM names no checkout of Megatron-LM")
        wanted = {point.what for point in POINTS}
        self.assertEqual(wanted - self.measured(checkout), set())


if __name__ == "__main__":
    support.main()
