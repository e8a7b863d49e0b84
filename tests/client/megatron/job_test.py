"""The profiler around a job of two processes that trains on the CPU over gloo."""

import json
import os
import shutil
import signal
import tempfile
import time
import unittest

import support
from support import EXPERTS, JOB, SCRIPT, Ended, run_job, start_job

TRAIN = [*JOB, *EXPERTS, "--train-iters", "5"]
FAULTY = os.path.join(support.HERE, "faulty_job.py")
OPTIONS = ["--skip", "1", "--iterations", "2", "--bench-seconds", "4"]


class JobTest(unittest.TestCase):
    plain: Ended  # The job without a profiler.

    @classmethod
    def setUpClass(cls) -> None:
        cls.plain = run_job([SCRIPT, *TRAIN])
        assert cls.plain.codes == [0, 0], cls.plain.errors

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "profile")

    def read(self, name: str) -> object:
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return json.load(file)

    def same_as_without(self, job: Ended) -> None:
        self.assertEqual(job.codes, [0, 0], job.errors)
        self.assertEqual(len(job.losses()), 10)
        self.assertEqual(job.losses(), self.plain.losses())

    def files(self) -> list[str]:
        return sorted(os.listdir(self.out)) if os.path.isdir(self.out) else []

    def test_records_writes_and_goes(self) -> None:
        job = run_job([FAULTY, "none", "--out", self.out, *OPTIONS, SCRIPT, *TRAIN])
        self.same_as_without(job)
        self.assertEqual(job.output.count("leftovers []"), 2, job.output)
        profiles = [name for name in self.files() if name.startswith("profile-")]
        self.assertEqual(len(profiles), 1)
        self.assertEqual(
            [name for name in self.files() if name not in profiles],
            ["rank-00000.json", "rank-00001.json", "report.json", "router-stats.json"],
        )
        self.check_rank(self.read("rank-00000.json"))
        # Two iterations with two micro-batches of 64 tokens on two ranks, each to two experts.
        routing = self.read("router-stats.json")
        self.assertEqual([sum(layer) for layer in routing], [2 * 2 * 64 * 2 * 2] * 2)
        self.assertEqual([len(layer) for layer in routing], [4, 4])
        report = self.read("report.json")
        parts = report["stages"][0]["seconds"]
        self.assertLessEqual(
            sum(parts[p] for p in ("forward", "backward", "gradient_sync", "optimizer")),
            report["iteration_seconds"] * 1.001,
        )
        self.assertGreaterEqual(report["router_imbalance"], 1)
        self.assertGreater(report["stages"][0]["peak_resident_bytes"], 2**20)
        profile = self.read(profiles[0])
        self.assertEqual(
            {(c["primitive"], c["ranks"]) for c in profile["collectives"]}
            & {("COLLECTIVE_PRIMITIVE_ALL_TO_ALL", 2), ("COLLECTIVE_PRIMITIVE_ALL_REDUCE", 2)},
            {("COLLECTIVE_PRIMITIVE_ALL_TO_ALL", 2), ("COLLECTIVE_PRIMITIVE_ALL_REDUCE", 2)},
        )
        self.assertEqual(
            sorted(table["kind"][len("OPERATION_KIND_") :] for table in profile["tables"]),
            ["ATTENTION", "ATTENTION_BACKWARD", "GEMM", "GROUPED_GEMM"],
        )

    def check_rank(self, rank: dict) -> None:
        self.assertEqual(len(rank["iterations"]), 2)
        # 2 micro-batches through 2 layers.
        times = rank["iterations"][0]["times"]
        for phase, count in {
            "iteration": 1,
            "forward": 2,
            "backward": 2,
            "gradient_sync": 1,
            "optimizer": 1,
            "layer.1.forward": 2,
            "layer.2.backward": 2,
            "core_attention.forward": 4,
            "core_attention.backward": 4,
            "experts.forward": 4,
            "experts.backward": 4,
            "dispatch.forward": 4,
            "combine.backward": 4,
            "router": 4,
            "linear.64x192x64.forward": 4,
            "linear.64x192x64.backward": 4,
            "outer_linear.64x128x64.forward": 2,
        }.items():
            self.assertEqual(times.get(phase), count, phase)
        self.assertFalse([key for key in times if key.endswith(".recompute")])
        self.assertEqual(
            set(rank["iterations"][0]["memory"]), {"forward", "backward", "optimizer", "end"}
        )
        self.assertEqual(rank["iterations"][0]["layer_kinds"], {"1": "moe", "2": "moe"})

    def test_one_variable_is_enough(self) -> None:
        job = run_job(
            [SCRIPT, *TRAIN],
            paths=(support.SWITCH, support.STANDIN),
            HAPMOE_PROFILE=self.out,
            HAPMOE_PROFILE_SKIP="1",
            HAPMOE_PROFILE_ITERATIONS="1",
            HAPMOE_PROFILE_BENCH_SECONDS="0",
        )
        self.same_as_without(job)
        self.assertIn("report.json", self.files())

    def test_files_of_an_earlier_job_are_cleared(self) -> None:
        os.makedirs(self.out)
        for name in ("rank-00001.json", "rank-00007.json", "mine.json"):
            with open(os.path.join(self.out, name), "w", encoding="utf-8") as file:
                file.write("{}")
        options = [*OPTIONS[:-1], "0"]
        job = run_job(["-m", "hapmoe_profiler", "--out", self.out, *options, SCRIPT, *TRAIN])
        self.same_as_without(job)
        self.assertEqual(len(self.read("rank-00001.json")["iterations"]), 2)
        self.assertIn("mine.json", self.files())
        self.assertIn("report.json", self.files())
        self.assertNotIn("rank-00007.json", self.files())

    def test_a_job_that_ends_early_leaves_what_was_recorded(self) -> None:
        job = run_job(
            ["-m", "hapmoe_profiler", "--out", self.out, "--iterations", "9", SCRIPT, *TRAIN]
        )
        self.same_as_without(job)
        self.assertEqual(len(self.read("rank-00000.json")["iterations"]), 2)
        self.assertIn("report.json", self.files())

    def test_stages_wait_for_each_other(self) -> None:
        train = [*JOB, "--train-iters", "4", "--pipeline-model-parallel-size", "2"]
        job = run_job(["-m", "hapmoe_profiler", "--out", self.out, *OPTIONS, SCRIPT, *train])
        self.assertEqual(job.codes, [0, 0], job.errors)
        report = self.read("report.json")
        self.assertEqual([stage["ranks"] for stage in report["stages"]], [[0], [1]])
        for stage in report["stages"]:
            self.assertGreater(stage["seconds"]["pipeline"], 0)
        self.assertEqual(
            [set(self.read(f"rank-0000{r}.json")["iterations"][0]["layer_kinds"]) for r in (0, 1)],
            [{"1"}, {"2"}],
        )

    def test_whatever_fails_the_job_trains_the_same(self) -> None:
        faults = (
            "all open close open_module close_module note_routing begin begin_iteration "
            "end_iteration end_iteration@1 _operations _collectives write_rank@1 finish merge"
        ).split()
        for fault in faults:
            with self.subTest(fault=fault):
                options = [*OPTIONS[:-1], "0.5"]
                job = run_job([FAULTY, fault, "--out", self.out, *options, SCRIPT, *TRAIN])
                self.same_as_without(job)
                self.assertEqual(job.output.count("leftovers []"), 2, job.output)
                self.assertIn("hapmoe_profiler", job.errors)
                self.whole()
                shutil.rmtree(self.out, ignore_errors=True)

    def whole(self) -> None:
        """Every file is JSON, and none is half written."""
        for name in self.files():
            self.assertTrue(name.endswith(".json"), name)
            self.read(name)

    def test_a_rank_without_the_profiler_stops_nobody(self) -> None:
        # Rank 1 fails at its first hook and never comes to the benchmarks of collectives.
        job = run_job([FAULTY, "begin_iteration@1", "--out", self.out, *OPTIONS, SCRIPT, *TRAIN])
        self.same_as_without(job)
        self.assertIn("did not agree", job.errors)
        self.assertEqual(self.files(), ["rank-00000.json"])
        self.assertEqual(self.read("rank-00000.json")["collectives"], [])

    def test_points_that_are_missing_are_told_and_left_out(self) -> None:
        copy = os.path.join(os.path.dirname(self.out), "standin")
        shutil.copytree(support.STANDIN, copy)
        core = os.path.join(copy, "megatron", "core")
        for path, old, new in (
            (
                f"{core}/transformer/dot_product_attention.py",
                "DotProductAttention",
                "OtherAttention",
            ),
            (f"{core}/transformer/transformer_layer.py", "DotProductAttention", "OtherAttention"),
            (f"{core}/pipeline_parallel/schedules.py", "backward_step(", "run_backward("),
        ):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn(old, text)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
        script = os.path.join(copy, "pretrain_gpt.py")
        job = run_job(
            ["-m", "hapmoe_profiler", "--out", self.out, *OPTIONS, script, *TRAIN],
            paths=(support.PACKAGE, copy),
        )
        self.same_as_without(job)
        for what in ("core_attention", "backward"):
            self.assertIn(f"has no known point to measure {what}", job.errors)
        self.assertIn("report.json", self.files())

    def test_a_job_without_a_training_step_is_told(self) -> None:
        copy = os.path.join(os.path.dirname(self.out), "standin")
        shutil.copytree(support.STANDIN, copy)
        path = os.path.join(copy, "megatron", "training", "training.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("train_step(", "step_of_training("))
        job = run_job(
            [
                "-m",
                "hapmoe_profiler",
                "--out",
                self.out,
                os.path.join(copy, "pretrain_gpt.py"),
                *TRAIN,
            ],
            paths=(support.PACKAGE, copy),
        )
        self.same_as_without(job)
        self.assertIn("no training step was seen", job.errors)
        self.assertEqual(self.files(), [])

    def test_killed_while_it_records_and_writes(self) -> None:
        for delay in (0.0, 0.4, 2.0):
            with self.subTest(delay=delay):
                train = [*JOB, *EXPERTS, "--train-iters", "500"]
                processes = start_job(
                    ["-m", "hapmoe_profiler", "--out", self.out, *OPTIONS, SCRIPT, *train]
                )
                processes[0].stdout.readline()  # The first iteration is done.
                time.sleep(delay)
                for process in processes:
                    process.send_signal(signal.SIGKILL)
                for process in processes:
                    process.communicate()
                for name in self.files():
                    if not name.startswith("."):
                        self.read(name)
                shutil.rmtree(self.out, ignore_errors=True)


if __name__ == "__main__":
    support.need_torch()
    support.main()
