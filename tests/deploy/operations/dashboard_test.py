"""deploy/grafana: the dashboard is one that Grafana can lay out, and asks for what the server exports."""

from __future__ import annotations

import unittest

import dashboard
import promql
import support

OF_PROMETHEUS = {"up": set(), "ALERTS": {"alertname", "alertstate", "severity"}}


class DashboardTest(unittest.TestCase):
    def test_panels_have_names_and_places_of_their_own(self) -> None:
        everything = dashboard.load()["panels"]
        self.assertEqual(len({panel["id"] for panel in everything}), len(everything))
        self.assertEqual(len({panel["title"] for panel in everything}), len(everything))
        taken: dict[tuple[int, int], str] = {}
        for panel in everything:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken[x, y] = panel["title"]

    def test_every_panel_says_its_unit_and_asks_the_chosen_prometheus(self) -> None:
        chosen = {"type": "prometheus", "uid": "${datasource}"}
        for panel in dashboard.panels():
            self.assertEqual(panel["datasource"], chosen, panel["title"])
            for target in panel["targets"]:
                self.assertEqual(target["datasource"], chosen, panel["title"])
            unit = panel["fieldConfig"]["defaults"].get("unit") or panel["options"].get(
                "yAxis", {}
            ).get("unit")
            self.assertTrue(unit or panel["type"] == "table", panel["title"])

    def test_asks_for_the_chosen_job_alone(self) -> None:
        for where, expression in dashboard.expressions().items():
            for selector in promql.names(expression).selectors:
                matched = {(label, value) for label, _, value in selector.matchers}
                if where != "variable job":
                    self.assertIn(("job", "hapmoed"), matched, where)

    def test_the_server_exports_all_that_is_named(self) -> None:
        with support.Server() as server:
            exported = promql.samples(server.metrics())
        for where, expression in dashboard.expressions().items():
            self.assertNotIn("$", expression, where)
            self.assertEqual(promql.unknown(expression, exported, OF_PROMETHEUS), [], where)


if __name__ == "__main__":
    support.main()
