"""What follows from the files of ranks. The numbers are made up, and their sums in comments."""

import copy
import json
import os
import tempfile
import unittest

import support
from hapmoe_profiler import accelerator, files, levels, merge, profile, shapes

JOB = {
    "num_layers": 2, "hidden_size": 8, "ffn_hidden_size": 32, "num_attention_heads": 2,
    "num_query_groups": None, "kv_channels": 4, "seq_length": 16, "micro_batch_size": 1,
    "global_batch_size": 4, "padded_vocab_size": 64, "num_experts": None,
    "moe_ffn_hidden_size": None, "moe_router_topk": None,
    "moe_shared_expert_intermediate_size": None, "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1, "context_parallel_size": 1,
    "expert_model_parallel_size": 1, "expert_tensor_parallel_size": 1, "swiglu": False,
    "group_query_attention": False, "bf16": False, "fp16": False, "fp8": None,
    "sequence_parallel": False, "use_distributed_optimizer": False,
    "multi_latent_attention": False, "qk_layernorm": False, "attention_output_gate": False,
    "cross_entropy_loss_fusion": False, "recompute_granularity": None,
    "overlap_grad_reduce": False, "overlap_param_gather": False, "optimizer": "adam",
    "normalization": "LayerNorm", "moe_token_dispatcher_type": "alltoall",
    "moe_expert_capacity_factor": None,
    "dense_parameters": 1000, "expert_parameters": 0, "layer_kinds": ["dense"],
}  # fmt: skip


def iteration(seconds: float, layer: float) -> dict:
    """Two layers with two passes each; a backward pass takes twice as long."""
    times = {"iteration": 1, "forward": 2, "backward": 2, "optimizer": 1}
    spans = {"iteration": seconds, "forward": 4 * layer, "backward": 8 * layer, "optimizer": 0.01}
    for number in (1, 2):
        for direction, factor in (("forward", 1), ("backward", 2)):
            times[f"layer.{number}.{direction}"] = 2
            spans[f"layer.{number}.{direction}"] = 2 * layer * factor
    peaks = {"peak_allocated_bytes": 1000, "peak_reserved_bytes": 2000}
    return {
        "seconds": spans,
        "times": times,
        "host_seconds": {},
        "memory": {"end": {"allocated_bytes": 10, "reserved_bytes": 20, **peaks}},
        "layer_kinds": {"1": "dense", "2": "dense"},
        "expert_tokens": {},
        "pass_imbalance": {},
    }


def rank(number: int = 0, ranks: int = 2, **changes: object) -> dict:
    content = {
        "version": "test",
        "rank": number,
        "ranks": ranks,
        "local_ranks": 2,
        "stage": 0,
        "settings": {"accelerator": "", "plan_id": "abc"},
        "device": {
            "kind": "cpu", "name": "CPU of a test", "vendor": "CPU", "architecture": "x",
            "capacity_bytes": 10**9, "multiprocessors": 1,
        },
        "job": copy.deepcopy(JOB),
        "iterations": [iteration(1.0, 0.05)],
        "operations": {
            "precision": "fp32", "kernel_seconds": 1e-6, "memory_bytes_per_second": 1e9,
            "streams": [
                {"name": "norm", "count": {"dense": 2}, "bytes": 4000.0, "launches": 2,
                 "seconds": 1e-5},
            ],
            "gemm": [{"m": 16, "n": 24, "k": 8, "groups": 1, "seconds": 1e-5}],
            "grouped_gemm": [], "attention": [], "attention_backward": [],
        },
        "collectives": [],
    }  # fmt: skip
    content.update(changes)
    return content


class MergeTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, *ranks: dict) -> None:
        for content in ranks:
            files.write_json(os.path.join(self.folder, merge.rank_file(content["rank"])), content)

    def merged(self, *ranks: dict, **options: str) -> dict[str, dict]:
        self.write(*ranks)
        return {
            os.path.basename(path): files.read_json(path)
            for path in merge.merge(self.folder, **options)
        }

    def test_writes_a_profile_for_each_type_and_a_report(self) -> None:
        other = rank(1)
        other["device"]["name"] = "CPU of another kind"
        self.assertEqual(
            sorted(self.merged(rank(0), other)),
            ["profile-cpu-of-a-test.json", "profile-cpu-of-another-kind.json", "report.json"],
        )

    def test_reports_the_middle_half_of_iterations_at_the_slowest_rank(self) -> None:
        # By their slowest rank: 1, 2, 3, 10. The middle half is 2 and 3.
        first = rank(0, iterations=[iteration(t, 0.05) for t in (1.0, 3.0, 2.0, 4.0)])
        second = rank(1, iterations=[iteration(t, 0.05) for t in (0.5, 2.0, 1.0, 10.0)])
        for content in (first, second):
            content["device"]["kind"] = "cuda"
        report = self.merged(first, second)["report.json"]
        self.assertEqual(report["iteration_seconds"], 2.5)
        self.assertEqual(report["plan_id"], "abc")
        self.assertEqual(report["iterations"], 4)
        stage = report["stages"][0]
        self.assertEqual(
            (stage["peak_allocated_bytes"], stage["peak_reserved_bytes"]), (1000, 2000)
        )
        self.assertNotIn("peak_resident_bytes", stage)
        self.assertEqual(stage["ranks"], [0, 1])
        self.assertAlmostEqual(stage["seconds"]["forward"], 0.2)
        self.assertNotIn("router_imbalance", report)

    def test_dense_layers_are_those_of_the_slowest_rank(self) -> None:
        found = self.merged(rank(0), rank(1, iterations=[iteration(1.0, 0.06)]))[
            "profile-cpu-of-a-test.json"
        ]
        layer = found["layers"][0]
        self.assertAlmostEqual(layer["forward_microseconds"][0], 60000)
        self.assertAlmostEqual(layer["backward_microseconds"][0], 120000)
        self.assertEqual(layer["hidden_size"], 8)
        self.assertEqual(layer["query_groups"], 2)
        self.assertFalse(layer["includes_tensor_communication"])

    def test_layers_measured_before_at_other_cuts_are_kept(self) -> None:
        base = self.merged(rank(0, 1))["profile-cpu-of-a-test.json"]
        # As the server prints it: 64-bit numbers are text, and what is false is left out.
        layer = base["layers"][0]
        for field, value in list(layer.items()):
            if isinstance(value, bool):
                del layer[field]
            elif isinstance(value, int):
                layer[field] = str(value)
        layer["tensor_parallel"], layer["micro_batch"] = ["1", "1"], ["1", "2"]
        layer["forward_microseconds"], layer["backward_microseconds"] = [1.0, 2.0], [3.0, 4.0]
        path = os.path.join(self.folder, "base.json")
        files.write_json(path, {"profile": base, "built_in": False})
        found = self.merged(rank(0, 1), base=path)["profile-cpu-of-a-test.json"]
        self.assertEqual(len(found["layers"]), 1)
        self.assertEqual([int(x) for x in found["layers"][0]["micro_batch"]], [1, 2])
        self.assertAlmostEqual(found["layers"][0]["forward_microseconds"][0], 50000)
        self.assertEqual(found["layers"][0]["forward_microseconds"][1], 2.0)

    def test_layers_with_selective_recomputation_are_left_out(self) -> None:
        selective = rank(0, 1)
        selective["job"]["recompute_granularity"] = "selective"
        self.assertNotIn("layers", self.merged(selective)["profile-cpu-of-a-test.json"])

    def test_router_statistics_add_up_over_ranks_and_iterations(self) -> None:
        one, two = iteration(1.0, 0.05), iteration(1.0, 0.05)
        one["expert_tokens"] = {"10": [1, 2, 3, 4], "2": [4, 4, 4, 4]}
        two["expert_tokens"] = {"10": [1, 1, 1, 1], "2": [1, 2, 1, 2]}
        first, second = rank(0, iterations=[one, two]), rank(1, iterations=[two, two])
        for content in (first, second):
            content["job"]["num_experts"] = 4
            content["job"]["expert_model_parallel_size"] = 2
        found = self.merged(first, second)
        self.assertEqual(found["router-stats.json"], [[7, 10, 7, 10], [4, 5, 6, 7]])
        # Ranks hold 17 and 17, then 9 and 13 of a mean of 11.
        self.assertAlmostEqual(found["report.json"]["router_imbalance"], (1 + 13 / 11) / 2)

    def test_an_unknown_type_has_what_was_measured(self) -> None:
        found = self.merged(rank(0, 1))["profile-cpu-of-a-test.json"]
        self.assertEqual(found["accelerator"], "CPU of a test")
        # 2 x 16 x 24 x 8 operations in 10 microseconds.
        self.assertAlmostEqual(found["compute"]["fp32_flops_per_second"]["value"], 6144 / 1e-5)
        self.assertEqual(found["memory"]["capacity_bytes"]["value"], 10**9)
        self.assertIn("give each pool its own", found["notes"])
        # Four passes of two norms: 8 x 4000 bytes in 8 x (10 - 2 x 1) us, and 1000 x (4 + 16 + 4)
        # bytes of the optimizer in 10 ms.
        rate = (32000 + 24000) / (64e-6 + 0.01)
        self.assertAlmostEqual(found["efficiency"]["memory_ratio"]["value"], rate / 1e9)
        for message, fields in (("scale_up", 4), ("network", 2), ("memory", 4)):
            self.assertEqual(len(found[message]), fields, message)
            for figure in found[message].values():
                self.assertTrue(figure["source"])

    def test_a_known_type_keeps_its_data_sheet(self) -> None:
        base = accelerator.find("A100")
        path = os.path.join(self.folder, "base.json")
        files.write_json(path, base)
        known = rank(0, 1)
        known["job"]["bf16"] = True
        rows = [4096 + 256 * i for i in range(12)]
        known["operations"]["gemm"] = [
            {"m": m, "n": 4096, "k": 4096, "groups": 1, "seconds": 2e-7 * m} for m in rows
        ]
        known["operations"]["gemm"].append(  # Above the peak.
            {"m": 8192, "n": 4096, "k": 4096, "groups": 1, "seconds": 1e-4}
        )
        known["operations"]["attention"] = [  # Too few to take the place of what is known.
            {"m": 4096, "n": 4096, "k": 128, "groups": 8, "seconds": 1e-3}
        ]
        found = self.merged(known, base=path)["profile-a100-sxm-80gb.json"]
        for message in ("compute", "scale_up", "network", "aliases", "collectives"):
            self.assertEqual(found[message], base[message], message)
        gemm = [t for t in found["tables"] if t["kind"] == "OPERATION_KIND_GEMM"]
        self.assertEqual(len(gemm), 1)
        self.assertEqual(gemm[0]["m"], rows)
        self.assertIn("above the data sheet", found["notes"])
        for tables in (found["tables"], base["tables"]):
            attention = [t for t in tables if t["kind"] == "OPERATION_KIND_ATTENTION"]
            self.assertEqual(len(attention[0]["m"]), len(attention[0]["n"]))
            self.assertGreater(len(attention[0]["m"]), 1)
        self.assertIn("1 samples of ATTENTION were too few", found["notes"])

    def test_a_type_that_was_measured_before_keeps_its_best(self) -> None:
        before = self.merged(rank(0, 1))["profile-cpu-of-a-test.json"]
        path = os.path.join(self.folder, "base.json")
        files.write_json(path, before)
        for factor, best in ((0.5, 2.0), (4.0, 1.0)):  # Of the time, and then of the rate.
            again = rank(0, 1)
            for sample in again["operations"]["gemm"]:
                sample["seconds"] *= factor
            again["operations"]["memory_bytes_per_second"] /= factor
            found = self.merged(again, base=path)["profile-cpu-of-a-test.json"]
            for message, field in (
                ("compute", "fp32_flops_per_second"),
                ("memory", "bytes_per_second"),
            ):
                self.assertAlmostEqual(
                    found[message][field]["value"], best * before[message][field]["value"]
                )
            self.assertEqual(found["scale_up"], before["scale_up"])

    def test_collectives_between_nodes_are_no_curves(self) -> None:
        far = rank(0, 4)
        far["collectives"] = [
            {"primitive": "ALL_REDUCE", "kind": "data", "ranks": 4, "members": [0, 1, 2, 3],
             "bytes": [4096, 4096000], "seconds": [1e-4, 1e-3]},
            {"primitive": "ALL_REDUCE", "kind": "tensor", "ranks": 2, "members": [0, 1],
             "bytes": [4096, 16384, 65536], "seconds": [1e-5, 9e-6, 3e-5]},
        ]  # fmt: skip
        found = self.merged(far)["profile-cpu-of-a-test.json"]
        self.assertEqual([c["ranks"] for c in found["collectives"]], [2])
        self.assertEqual(found["collectives"][0]["seconds"], [1e-5, 1e-5, 3e-5])
        # Two rings of 4096000 / 2 x 3 / 4 bytes in a millisecond.
        self.assertAlmostEqual(found["network"]["bytes_per_second"]["value"], 3.072e9)

    def test_says_what_is_wrong_with_files(self) -> None:
        with self.assertRaisesRegex(ValueError, "no file of a rank"):
            merge.merge(self.folder)
        self.write(rank(0, iterations=[]))
        with self.assertRaisesRegex(ValueError, "rank-00000.json: holds no iteration"):
            merge.merge(self.folder)

    def test_writes_json_of_finite_numbers_only(self) -> None:
        for path in sorted(self.merged(rank(0), rank(1))):
            with open(os.path.join(self.folder, path), encoding="utf-8") as file:
                json.load(file, parse_constant=self.fail)


class LevelsTest(unittest.TestCase):
    def test_benchmarks_of_other_shapes_go_with_the_job(self) -> None:
        own, other = shapes.Shape(16, 24, 8), shapes.Shape(32, 24, 8)
        table = {}
        for shape in (own, other):
            for one in (shape, shapes.input_gradient(shape), shapes.weight_gradient(shape)):
                table[one] = [1.0]
        # The job took twice the benchmarks' 1 + 1 + 1.045.
        samples, level = levels.calibrated(table, {own: (2.0, 2 * 2.045)})
        self.assertAlmostEqual(level, 2.0)
        self.assertAlmostEqual(samples[other], 2.0)
        self.assertAlmostEqual(samples[own], 2.0)
        self.assertAlmostEqual(samples[shapes.input_gradient(own)], 2.0)
        self.assertAlmostEqual(samples[shapes.weight_gradient(own)], 2.0)


class ShapesTest(unittest.TestCase):
    def test_of_a_dense_layer(self) -> None:
        # 16 tokens: 3 x 8 of the projection, the projection back, 32 in and back, 64 words.
        expected = [(16, 24, 8), (16, 8, 8), (16, 32, 8), (16, 8, 32), (16, 64, 8)]
        found = [tuple(shape[:3]) for shape in shapes.products(JOB)[:5]]
        self.assertEqual(found, expected)

    def test_of_experts(self) -> None:
        job = {**JOB, "num_experts": 4, "moe_router_topk": 2, "expert_model_parallel_size": 2}
        # 2 x 16 rows over the 2 experts of a rank.
        self.assertEqual(
            shapes.grouped_products(job)[:2],
            [shapes.Shape(32, 32, 8, 2), shapes.Shape(32, 8, 32, 2)],
        )
        self.assertIn(shapes.Shape(16, 4, 8), shapes.products(job))

    def test_of_gradients(self) -> None:
        forward = shapes.Shape(32, 24, 8, 2)
        self.assertEqual(shapes.input_gradient(forward), shapes.Shape(32, 8, 24, 2))
        self.assertEqual(shapes.weight_gradient(forward), shapes.Shape(16, 24, 16, 2))


class NamesTest(unittest.TestCase):
    def test_devices_find_their_profile(self) -> None:
        cases = {
            "NVIDIA H100 80GB HBM3": "H100-SXM",
            "NVIDIA A100-SXM4-80GB": "A100-SXM-80GB",
            "AMD Instinct MI300X": "MI300X",
            "Ascend910B3": "Ascend 910B3",
        }
        for name, profile_name in cases.items():
            with self.subTest(name=name):
                self.assertEqual(accelerator.find(name)["accelerator"], profile_name)

    def test_names_are_what_profiles_may_have(self) -> None:
        cases = {
            "CPU Intel(R) Xeon(R) @ 2.0GHz": "CPU Intel R Xeon R 2.0GHz",
            "x" * 70: "x" * 64,
            "\t": "unknown",
        }
        for text, name in cases.items():
            with self.subTest(text=text):
                self.assertEqual(profile.profile_name(text), name)


if __name__ == "__main__":
    support.main()
