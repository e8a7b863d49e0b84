"""Names that a PromQL expression uses: enough of the language for rules and dashboards."""

from __future__ import annotations

import dataclasses
import re

TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'[^']*')
      | (?P<duration>\d+(?:\.\d+)?(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
      | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],:@])
      | (?P<space>\s+)""",
    re.X,
)
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
# Given to every series by Prometheus itself, or by its operator.
TARGET_LABELS = {"job", "instance", "namespace"}
LABEL_LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}


@dataclasses.dataclass(frozen=True)
class Selector:
    """One use of a metric: its name and matchers, (label, operator, value) each."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


@dataclasses.dataclass(frozen=True)
class Names:
    """What an expression names; `labels` are those that it groups or joins by."""

    selectors: list[Selector]
    labels: set[str]


def names(expression: str) -> Names:
    """ValueError: this is no PromQL that we know."""
    tokens = list(_tokens(expression))
    selectors, labels = [], set()
    i = 0
    while i < len(tokens):
        kind, text = tokens[i]
        after = tokens[i + 1][1] if i + 1 < len(tokens) else ""
        if kind == "name" and text in LABEL_LISTS and after == "(":
            i += 2
            while tokens[i][1] != ")":
                if tokens[i][0] == "name":
                    labels.add(tokens[i][1])
                i += 1
        elif (
            kind == "name"
            and text.lower() not in WORDS | LABEL_LISTS
            and after not in ("(",)
            and not _groups(tokens, i)
        ):
            matchers = []
            if after == "{":
                i += 2
                while tokens[i][1] != "}":
                    label, operator, value = (token[1] for token in tokens[i : i + 3])
                    matchers.append((label, operator, value[1:-1]))
                    i += 3
                    if tokens[i][1] == ",":
                        i += 1
            selectors.append(Selector(text, tuple(matchers)))
        i += 1
    return Names(selectors, labels)


def _groups(tokens: list[tuple[str, str]], i: int) -> bool:
    """Whether this is an aggregation that says by what it groups first: sum by (job) (...)."""
    return i + 1 < len(tokens) and tokens[i + 1][1] in LABEL_LISTS


def _tokens(expression: str):
    position = 0
    while position < len(expression):
        match = TOKEN.match(expression, position)
        if match is None:
            raise ValueError(f"no PromQL at {expression[position:position + 20]!r}")
        position = match.end()
        if match.lastgroup != "space":
            yield match.lastgroup, match.group()


def samples(text: str) -> dict[str, list[dict[str, str]]]:
    """Labels of the series of each metric in Prometheus' text format."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in text.splitlines():
        match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+", line)
        if match:
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match.group(2) or ""))
            found.setdefault(match.group(1), []).append(labels)
    return found


def unknown(
    expression: str, exported: dict[str, list[dict[str, str]]], others: dict[str, set[str]]
) -> list[str]:
    """What an expression names that is neither exported nor one of the `others`.

    `exported` is as samples() tells, `others` are given with their labels.

    A label's value, where it is no pattern but for alternatives, is one that some series has.
    """
    found = names(expression)
    missing = []
    labels = set(TARGET_LABELS)
    for selector in found.selectors:
        if selector.metric in others:
            labels |= others[selector.metric]
            continue
        series = exported.get(selector.metric, [])
        if not series:
            missing.append(selector.metric)
            continue
        labels |= {label for one in series for label in one}
        for label, operator, value in selector.matchers:
            if label not in TARGET_LABELS:
                for word in value.split("|") if "~" in operator else [value]:
                    if not any(one.get(label) == word for one in series):
                        missing.append(f"{selector.metric}{{{label}={word}}}")
    return missing + sorted(found.labels - labels)
