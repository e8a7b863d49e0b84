"""deploy/prometheus: promtool takes it, alerts fire when they are to, and all that is named exists.

With --update the rules are written into deploy/kubernetes/monitoring/prometheus-rule.yaml.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import tempfile
import unittest

import promql
import support
import yaml
from alert_cases import CASES, Case

RULES = os.path.join(support.DEPLOY, "prometheus", "rules.yaml")
OPERATOR_RULE = os.path.join(support.DEPLOY, "kubernetes", "monitoring", "prometheus-rule.yaml")
OPERATOR_HEAD = """\
# deploy/prometheus/rules.yaml for the Prometheus operator.
# Written by tests/deploy/operations/prometheus_test.py --update.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: hapmoed
  labels:
    app.kubernetes.io/name: hapmoed
spec:
"""


def rules() -> list[dict]:
    return [
        rule
        for group in yaml.safe_load(support.read("prometheus", "rules.yaml"))["groups"]
        for rule in group["rules"]
    ]


def level(rule: dict) -> set[str]:
    """The labels that a recorded name says it is by."""
    return set(rule["record"].split(":")[0].split("_"))


def told(text: str, labels: dict[str, str], value: str) -> str:
    """An annotation as it is told."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match.group(1)], text)
    return re.sub(r"\{\{ \$value.*?\}\}", value, text)


def as_promtool_reads_it(case: Case) -> dict:
    expected = []
    for labels, value in case.fires:
        (rule,) = (
            rule
            for rule in rules()
            if rule.get("alert") == case.alert and rule["labels"]["severity"] == labels["severity"]
        )
        annotations = {
            name: told(text, labels, value) for name, text in rule["annotations"].items()
        }
        expected.append({"exp_labels": labels, "exp_annotations": annotations})
    return {
        "name": f"{case.alert}: {case.name}",
        "interval": "1m",
        "input_series": [
            {"series": series, "values": values} for series, values in case.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}
        ],
    }


def promtool_on(cases: list[Case]) -> str:
    """What promtool says against these cases; empty when they hold."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(
            {
                "rule_files": [RULES],
                "evaluation_interval": "1m",
                "tests": [as_promtool_reads_it(c) for c in cases],
            },
            file,
        )
        file.flush()
        ran = support.run("promtool", "test", "rules", file.name)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def operator_rule() -> str:
    body = re.sub(r"\A(#.*\n)+", "", support.read("prometheus", "rules.yaml"))
    return OPERATOR_HEAD + re.sub(r"^(?=.)", "  ", body, flags=re.M)


class RulesTest(unittest.TestCase):
    maxDiff = None

    def test_promtool_takes_them(self) -> None:
        for command in (
            ("check", "rules", RULES),
            ("check", "config", os.path.join(support.DEPLOY, "prometheus", "prometheus.yaml")),
        ):
            ran = support.run("promtool", *command)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_recorded_names_say_level_metric_and_operations(self) -> None:
        for rule in rules():
            if "record" in rule:
                self.assertRegex(rule["record"], r"^[a-z_]+:[a-z_]+:[a-z0-9_]+$")
                kept = promql.names(rule["expr"]).labels - {"le"}
                self.assertEqual(kept | promql.TARGET_LABELS, level(rule) | promql.TARGET_LABELS)

    def test_alerts_say_what_is_wrong_and_what_to_do(self) -> None:
        for rule in rules():
            if "alert" in rule:
                self.assertIn(rule["labels"]["severity"], ("page", "ticket"))
                self.assertEqual(set(rule["annotations"]), {"summary", "action"})

    def test_operators_have_the_same_rules(self) -> None:
        with open(OPERATOR_RULE, encoding="utf-8") as file:
            self.assertEqual(file.read(), operator_rule())
        self.assertEqual(
            yaml.safe_load(operator_rule())["spec"],
            yaml.safe_load(support.read("prometheus", "rules.yaml")),
        )


class AlertsTest(unittest.TestCase):
    def test_every_alert_has_cases_in_which_it_fires_and_in_which_it_does_not(self) -> None:
        named = {(rule["alert"], rule["labels"]["severity"]) for rule in rules() if "alert" in rule}
        self.assertEqual(
            {(c.alert, labels["severity"]) for c in CASES for labels, _ in c.fires}, named
        )
        self.assertEqual({c.alert for c in CASES if not c.fires}, {alert for alert, _ in named})

    def test_alerts_fire_when_they_are_to(self) -> None:
        self.assertEqual(promtool_on(list(CASES)), "")

    def test_a_wrong_case_is_found(self) -> None:
        for case in (
            dataclasses.replace(CASES[0], fires=()),
            dataclasses.replace(CASES[2], fires=CASES[0].fires),
        ):
            self.assertIn(case.name, promtool_on([case]))


class NamesTest(unittest.TestCase):
    """All that rules name is exported by a server that has done nothing yet."""

    @classmethod
    def setUpClass(cls) -> None:
        with support.Server() as server:
            cls.exported = promql.samples(server.metrics())

    def test_the_server_exports_all_that_is_named(self) -> None:
        others = {rule["record"]: level(rule) for rule in rules() if "record" in rule} | {
            "up": set()
        }
        for rule in rules():
            self.assertEqual(promql.unknown(rule["expr"], self.exported, others), [], rule)

    def test_unknown_names_are_found(self) -> None:
        for expression, unknown in (
            ("sum by (method) (rate(hapmoe_requests_total[5m]))", []),
            ("rate(hapmoe_requests[5m])", ["hapmoe_requests"]),
            ('hapmoe_requests_total{code="FAILED"} > 0', ["hapmoe_requests_total{code=FAILED}"]),
            (
                'hapmoe_requests_total{method=~"Plan|Place"}',
                ["hapmoe_requests_total{method=Place}"],
            ),
            ('hapmoe_requests_total{verb!="GET"}', ["hapmoe_requests_total{verb=GET}"]),
            ("sum by (reason) (hapmoe_requests_total)", ["reason"]),
            ("a:b:c / on (job) hapmoe_profiles_loaded", []),
        ):
            self.assertEqual(
                promql.unknown(expression, self.exported, {"a:b:c": {"a"}}), unknown, expression
            )


if __name__ == "__main__":
    if "--update" in sys.argv:
        with open(OPERATOR_RULE, "w", encoding="utf-8") as output:
            output.write(operator_rule())
        sys.exit(0)
    support.main()
