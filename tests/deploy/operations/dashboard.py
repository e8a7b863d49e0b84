"""What deploy/grafana/hapmoe.json asks of Prometheus."""

from __future__ import annotations

import json

import support

# What Grafana puts in place of its variables.
VARIABLES = {"$__rate_interval": "1m", "$__range": "1m", "$job": "hapmoed", "$instance": ".*"}


def load() -> dict:
    return json.loads(support.read("grafana", "hapmoe.json"))


def panels() -> list[dict]:
    return [panel for panel in load()["panels"] if panel["type"] != "row"]


def expressions() -> dict[str, str]:
    """All expressions as Grafana sends them, by where they stand."""
    dashboard = load()
    found = {
        f"{panel['title']}, {target['refId']}": target["expr"]
        for panel in panels()
        for target in panel["targets"]
    }
    for annotation in dashboard["annotations"]["list"]:
        found[f"annotation {annotation['name']}"] = annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            # label_values(SELECTOR, LABEL): there must be series to take values from.
            selector, label = (
                variable["query"]["query"]
                .removeprefix("label_values(")
                .removesuffix(")")
                .rsplit(", ", 1)
            )
            found[f"variable {variable['name']}"] = f"count by ({label}) ({selector})"
    return {where: _with_variables(expression) for where, expression in found.items()}


def _with_variables(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression
