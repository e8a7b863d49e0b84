"""Tables and curves, by hand."""

import math
import unittest

import support
from hapmoe_profiler import fit
from hapmoe_profiler.fit import Sample

CHIP = fit.Chip(flops_per_second=1e12, bytes_per_second=1e12)


class FlopsTest(unittest.TestCase):
    def test_counts_as_the_planner_does(self) -> None:
        cases = (
            ("GEMM", Sample(2, 3, 4, 1, 1.0), 48),  # 2 x 2 x 3 x 4
            ("GROUPED_GEMM", Sample(8, 3, 4, 2, 1.0), 192),  # 2 x 8 x 3 x 4: m holds all groups
            ("ATTENTION", Sample(4, 4, 2, 3, 1.0), 192),  # 2 x 4 x 4 x 2 x 3, half of two products
            ("ATTENTION_BACKWARD", Sample(4, 4, 2, 3, 1.0), 480),  # 2.5 times that
        )
        for kind, sample, flops in cases:
            with self.subTest(kind=kind):
                self.assertEqual(fit.flops(kind, sample), flops)


class BaseTest(unittest.TestCase):
    def test_is_the_slower_of_arithmetic_and_traffic(self) -> None:
        base = fit.Base(peak_ratio=0.5, depth_half=100.0, fixed_seconds=1e-6, traffic_ratio=0.5)
        # 2e6 operations, half as fast at depth 100, at half of the peak.
        deep = Sample(100, 100, 100, 1, 1.0)
        self.assertAlmostEqual(base.seconds("GEMM", deep, CHIP, 2), 1e-6 + 2e6 * 2 / 0.5e12)
        # 2 x (1e6 + 1e3) + 2 x 1e3 bytes at half of the bandwidth.
        flat = Sample(1, 1000, 1000, 1, 1.0)
        flat_base = fit.Base(1.0, 0.0, 0.0, 0.5)
        self.assertAlmostEqual(flat_base.seconds("GEMM", flat, CHIP, 2), 2004000 / 0.5e12)

    def test_finds_the_rate_that_samples_were_made_with(self) -> None:
        truth = fit.Base(peak_ratio=0.4, depth_half=64.0, fixed_seconds=0.0, traffic_ratio=1.0)
        shapes = [(256, 256, 64), (1024, 512, 128), (512, 2048, 1024), (4096, 4096, 512)]
        samples = [
            Sample(m, n, k, 1, truth.seconds("GEMM", Sample(m, n, k, 1, 1.0), CHIP, 2))
            for m, n, k in shapes
        ]
        found = fit.fit_base("GEMM", samples, CHIP, 2, fixed=0.0, traffic_ratio=1.0)
        self.assertEqual((found.peak_ratio, found.depth_half), (0.4, 64.0))
        self.assertLess(fit.left_out_error("GEMM", samples, found, CHIP, 2), 1e-9)


class LeftOutErrorTest(unittest.TestCase):
    def test_of_two_samples(self) -> None:
        base = fit.Base(1.0, 0.0, 0.0, 1.0)
        times = [
            base.seconds("GEMM", Sample(2**10, 2**9, 2**9, 1, 1.0), CHIP, 2) * math.e,
            base.seconds("GEMM", Sample(2**11, 2**9, 2**9, 1, 1.0), CHIP, 2),
        ]
        samples = [
            Sample(2**10, 2**9, 2**9, 1, times[0]),
            Sample(2**11, 2**9, 2**9, 1, times[1]),
        ]
        # An octave apart: weight w = 1 / 1.05^2 against 0.8. The residuals are 1 and 0: the first
        # is predicted as 0, the second as w / (w + 0.8).
        weight = 1 / 1.05**2
        expected = (1 + weight / (weight + 0.8)) / 2
        self.assertAlmostEqual(fit.left_out_error("GEMM", samples, base, CHIP, 2), expected)

    def test_a_table_states_no_less(self) -> None:
        samples = [Sample(2**i, 512, 512, 1, 1e-5 * (1 + i % 3)) for i in range(8, 16)]
        table = fit.table("GEMM", "bf16", samples, CHIP, 1e-6, 0.8, "here")
        base = fit.Base(
            table["peak_ratio"],
            table["depth_half"],
            table["fixed_seconds"],
            table["traffic_ratio"],
        )
        error = fit.left_out_error("GEMM", samples, base, CHIP, 2)
        self.assertGreaterEqual(table["stated_error"], error)
        self.assertLess(table["stated_error"], error + 0.0021)
        self.assertEqual(table["microseconds"][0], samples[0].seconds * 1e6)


class CurveTest(unittest.TestCase):
    def test_no_larger_message_is_quicker(self) -> None:
        self.assertEqual(fit.rising([(4, 3.0), (1, 1.0), (2, 5.0)]), [(1, 1.0), (2, 5.0), (4, 5.0)])

    def test_holds_every_third_point_back(self) -> None:
        # The third of five: the line from (2, 2) to (8, 8) says 4, measured are 5: off by a fifth.
        curve = fit.curve([(1, 1.0), (2, 2.0), (4, 5.0), (8, 8.0), (16, 16.0)])
        self.assertEqual(curve.bytes, [1, 2, 8, 16])
        self.assertEqual((curve.held_bytes, curve.held_seconds), ([4], [5.0]))
        self.assertAlmostEqual(curve.error_bound, 0.202)

    def test_holds_nothing_back_that_the_planner_would_refuse(self) -> None:
        # The line says 2.5 at 4, measured is 1: off by 1.5.
        curve = fit.curve([(1, 1.0), (2, 1.0), (4, 1.0), (8, 5.5), (16, 6.0)])
        self.assertEqual(curve.bytes, [1, 2, 4, 8, 16])
        self.assertEqual(curve.held_bytes, [])

    def test_lies_between_points_and_beyond_them(self) -> None:
        sizes, times = [2.0, 4.0], [1.0, 3.0]
        for size, seconds in ((1, 1.0), (3, 2.0), (4, 3.0), (8, 6.0)):
            with self.subTest(size=size):
                self.assertEqual(fit.seconds_at(sizes, times, size), seconds)


if __name__ == "__main__":
    support.main()
