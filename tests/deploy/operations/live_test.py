"""Everything that rules and the dashboard ask for has an answer.

A Prometheus with the files of deploy/prometheus scrapes a server to which everything happens that
they tell of.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import dashboard
import promql
import support
import yaml

STARTS_WITHIN_SECONDS = 30
SEEN_WITHIN_SECONDS = 60
# Prometheus asks every second here, so that rates are known soon.
INTERVAL = "1s"
# Nothing else can be told of them in so short a time: what they select must be there.
ONLY_SELECTED = {
    "job:hapmoe_cheap_requests_slow:ratio_rate5m",
    "job:hapmoe_cheap_requests_slow:ratio_rate1h",
}


class Prometheus:
    """Debian's, with deploy/prometheus on one server, for a `with` statement."""

    def __init__(self, target: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._port = support.free_port()
        folder = self._folder.name
        config = yaml.safe_load(support.read("prometheus", "prometheus.yaml"))
        config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        with open(os.path.join(folder, "prometheus.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file)
        rules = yaml.safe_load(support.read("prometheus", "rules.yaml"))
        for group in rules["groups"]:
            group.pop("interval", None)
        with open(os.path.join(folder, "rules.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump(rules, file)

    def __enter__(self) -> Prometheus:
        folder = self._folder.name
        self._log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yaml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stderr=self._log,
        )
        self.started = time.time()
        end = time.monotonic() + STARTS_WITHIN_SECONDS
        while not self._scraped():
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                self._log.seek(0)
                raise RuntimeError(f"no Prometheus: {self._log.read()}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        self._log.close()
        self._folder.cleanup()

    def _scraped(self) -> bool:
        try:
            return self.values('up{job="hapmoed"}')[-1:] == [1.0]
        except OSError:
            return False

    def values(self, expression: str) -> list[float]:
        """All values of all series since it was started, as a graph would show them."""
        words = urllib.parse.urlencode(
            {"query": expression, "start": self.started, "end": time.time(), "step": INTERVAL}
        )
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/api/v1/query_range?{words}", timeout=30
            ) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        values = [float(value) for series in result for _, value in series["values"]]
        return [value for value in values if math.isfinite(value)]


def job(cluster: str) -> list[str]:
    return [
        "--script",
        os.path.join(support.EXAMPLES, "mixtral-8x7b.sh"),
        "--script-reading",
        "static",
        "--cluster",
        os.path.join(support.EXAMPLES, cluster),
    ]


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        profiles = os.path.join(cls.folder, "profiles")
        os.mkdir(profiles)
        with open(os.path.join(profiles, "broken.json"), "w", encoding="utf-8") as file:
            file.write("{")
        # One search at a time, and none that waits: a second one is refused.
        cls.server = cls.enterClassContext(
            support.Server(
                f"--profiles={profiles}", "--search_threads=1", "--queue_size=1", "--drain_grace=4s"
            )
        )
        cls.prometheus = cls.enterClassContext(Prometheus(cls.server.metrics_address))
        cls.make_everything_happen()

    @classmethod
    def make_everything_happen(cls) -> None:
        def expect(status: int, *command: str) -> None:
            called = cls.server.client(*command)
            if called.returncode != status:
                raise AssertionError(f"{command}: {called.returncode}\n{called.stderr}")

        small = os.path.join(cls.folder, "small.yaml")
        with open(small, "w", encoding="utf-8") as file:
            file.write(
                "pools: [{name: h800, accelerator: H800, nodes: 1, accelerators_per_node: 8}]\n"
            )

        expect(0, "plan", *job("h800-a100.yaml"))
        expect(1, "plan", *job("h800-a100.yaml")[:4], "--cluster", small)  # Nothing fits.
        expect(0, "evaluate", *job("h800-a100.yaml"), "--world-size", "32")
        expect(0, "report", *job("h800.yaml"), "--seconds", "12")
        expect(0, "profiles", "list")
        end = time.monotonic() + SEEN_WITHIN_SECONDS
        while not any(cls.prometheus.values('hapmoe_queue_depth{pool="search"}')):
            if time.monotonic() > end:
                raise AssertionError("no scrape saw a search wait")
            cls.overload()
        cls.drain()

    @classmethod
    def overload(cls) -> None:
        """More searches at once than there are places."""
        started = [
            subprocess.Popen(
                # Equal ones would share one search.
                cls.server.command(
                    "frontier",
                    *job("h800-a100.yaml"),
                    "--memory-steps",
                    "8",
                    "--headroom",
                    str(headroom / 100),
                ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for headroom in range(5, 11)
        ]
        statuses = {process.wait(timeout=120) for process in started}
        if 0 not in statuses or len(statuses) < 2:
            raise AssertionError(f"none was refused, or all were: {statuses}")

    @classmethod
    def drain(cls) -> None:
        """The server is told to end while it searches, and refuses the calls that come meanwhile."""
        large = os.path.join(cls.folder, "large.yaml")
        with open(large, "w", encoding="utf-8") as file:
            file.write("pools:\n")
            for accelerator in ("H800", "A100-SXM-80GB"):
                file.write(f"  - {{name: {accelerator}, accelerator: {accelerator}, ")
                file.write("nodes: 32, accelerators_per_node: 8}\n")
        sizes = ",".join(str(nodes) for nodes in range(2, 32, 2))
        search = subprocess.Popen(
            cls.server.command(
                "frontier",
                *job("h800.yaml")[:4],
                "--cluster",
                large,
                "--memory-steps",
                "8",
                "--sizes",
                f"H800={sizes}",
                "--sizes",
                f"A100-SXM-80GB={sizes}",
            ),
            stdout=subprocess.DEVNULL,
        )
        while "hapmoe_inflight_requests 0" in cls.server.metrics():
            if search.poll() is not None:
                raise AssertionError("the search is over")
        cls.server.process.terminate()
        time.sleep(0.5)
        refused = cls.server.client("info")
        time.sleep(2.5)  # Two scrapes, and an evaluation of what they brought.
        if refused.returncode != 3 or search.wait(timeout=60) != 0:
            raise AssertionError(f"refused: {refused}, search: {search.returncode}")
        if cls.server.process.wait(timeout=60) != 0:
            raise AssertionError("the server did not end as it should")

    def test_the_dashboard_shows_something_everywhere(self) -> None:
        for where, expression in dashboard.expressions().items():
            with self.subTest(where):
                self.assertTrue(any(self.prometheus.values(expression)), expression)

    def test_rules_have_values(self) -> None:
        for group in yaml.safe_load(support.read("prometheus", "rules.yaml"))["groups"]:
            for rule in group["rules"]:
                with self.subTest(rule.get("record") or rule["alert"]):
                    self.prometheus.values(rule["expr"])  # It can be evaluated.
                    for selector in promql.names(rule["expr"]).selectors:
                        matchers = ",".join(
                            f'{label}{how}"{value}"' for label, how, value in selector.matchers
                        )
                        self.assertTrue(
                            self.prometheus.values(f"{selector.metric}{{{matchers}}}"), selector
                        )
                    if "record" in rule:
                        recorded = self.prometheus.values(rule["record"])
                        self.assertTrue(
                            recorded if rule["record"] in ONLY_SELECTED else any(recorded)
                        )

    def test_an_alert_fires(self) -> None:
        for alert, firing in (("HapmoeRefusesProfiles", True), ("HapmoeHasNoProfiles", False)):
            values = self.prometheus.values(f'ALERTS{{alertname="{alert}",alertstate="firing"}}')
            self.assertEqual(bool(values), firing, alert)


if __name__ == "__main__":
    support.main()
