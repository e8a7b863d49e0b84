"""When alerts of deploy/prometheus fire, and when they do not."""

from __future__ import annotations

import dataclasses

PLANNER = 'job="hapmoed",instance="a"'


@dataclasses.dataclass(frozen=True)
class Case:
    """Series a minute apart, and what fires at a moment: its labels, and the value as told."""

    alert: str
    name: str
    series: dict[str, str]
    at: str
    fires: tuple[tuple[dict[str, str], str], ...] = ()


def calls(code: str, method: str = "Plan") -> str:
    return f'hapmoe_requests_total{{{PLANNER},method="{method}",code="{code}"}}'


def durations(suffix: str, method: str, outcome: str, le: str = "") -> str:
    bucket = f',le="{le}"' if le else ""
    return f'hapmoe_request_duration_seconds_{suffix}{{{PLANNER},method="{method}",outcome="{outcome}"{bucket}}}'


def of_planner(metric: str, labels: str = "") -> str:
    return f"{metric}{{{PLANNER}{labels}}}"


def reports(suffix: str, prediction: str = "corrected") -> str:
    return of_planner(
        f"hapmoe_report_time_ratio_{suffix}", f',accelerator="H800-SXM",prediction="{prediction}"'
    )


JOB = {"job": "hapmoed"}
ONE = {"job": "hapmoed", "instance": "a"}
TYPE = {"job": "hapmoed", "accelerator": "H800-SXM"}
PAGE, TICKET = {"severity": "page"}, {"severity": "ticket"}

CASES = (
    Case(
        "HapmoeDown",
        "one of two is down",
        {'up{job="hapmoed",instance="a"}': "1 1 0x10", 'up{job="hapmoed",instance="b"}': "1x12"},
        "6m",
        ((ONE | PAGE, ""),),
    ),
    Case("HapmoeDown", "none is known", {'up{job="other"}': "1x10"}, "6m", ((JOB | PAGE, ""),)),
    Case("HapmoeDown", "up", {'up{job="hapmoed",instance="a"}': "1x10"}, "6m"),
    Case(
        "HapmoeDown", "a scrape was missed", {'up{job="hapmoed",instance="a"}': "1x4 0 1x10"}, "5m"
    ),
    # 10 of 100 are above both thresholds, 1.44 % and 0.6 %.
    Case(
        "HapmoeFailsCalls",
        "one in ten",
        {calls("OK"): "0+90x80", calls("INTERNAL"): "0+10x80"},
        "70m",
        ((JOB | PAGE, "10%"), (JOB | TICKET, "10%")),
    ),
    Case(
        "HapmoeFailsCalls",
        "one in a hundred",
        {calls("OK"): "0+99x80", calls("UNAVAILABLE"): "0+1x80"},
        "70m",
        ((JOB | TICKET, "1%"),),
    ),
    Case(
        "HapmoeFailsCalls",
        "one in a thousand",
        {calls("OK"): "0+999x80", calls("UNKNOWN"): "0+1x80"},
        "70m",
    ),
    Case(
        "HapmoeFailsCalls",
        "one of three in an hour",
        {calls("OK"): "0x10 2x70", calls("INTERNAL"): "0x10 1x70"},
        "13m",
    ),
    Case(
        "HapmoeFailsCalls",
        "ten of thirty at once",
        {calls("OK"): "0x10 20x70", calls("INTERNAL"): "0x10 10x70"},
        "14m",
        ((JOB | PAGE, "33.33%"),),
    ),
    # Over by now: the short windows are clean.
    Case(
        "HapmoeFailsCalls",
        "an hour ago",
        {calls("OK"): "0+90x180", calls("INTERNAL"): "0+10x60 600x120"},
        "120m",
    ),
    Case(
        "HapmoeFailsCalls",
        "callers' own faults",
        {
            calls("OK"): "0+10x80",
            calls("INVALID_ARGUMENT"): "0+50x80",
            calls("FAILED_PRECONDITION"): "0+30x80",
            calls("DEADLINE_EXCEEDED"): "0+10x80",
        },
        "70m",
    ),
    Case("HapmoeFailsCalls", "no calls", {calls("OK"): "5x80", calls("INTERNAL"): "1x80"}, "70m"),
    # 20 of 100 are slow, above 14.4 %.
    Case(
        "HapmoeAnswersSlowly",
        "one in five",
        {
            durations("bucket", "Evaluate", "miss", "0.25"): "0+80x80",
            durations("count", "Evaluate", "miss"): "0+100x80",
        },
        "70m",
        ((JOB | PAGE, "20%"),),
    ),
    Case(
        "HapmoeAnswersSlowly",
        "two of two in an hour",
        {
            durations("bucket", "Evaluate", "miss", "0.25"): "0x80",
            durations("count", "Evaluate", "miss"): "0x10 2x70",
        },
        "13m",
    ),
    Case(
        "HapmoeAnswersSlowly",
        "one in ten",
        {
            durations("bucket", "Evaluate", "miss", "0.25"): "0+90x80",
            durations("count", "Evaluate", "miss"): "0+100x80",
        },
        "70m",
    ),
    Case(
        "HapmoeAnswersSlowly",
        "searches may take long",
        {
            durations("bucket", "Plan", "miss", "0.25"): "0+1x80",
            durations("count", "Plan", "miss"): "0+100x80",
            durations("bucket", "Evaluate", "miss", "0.25"): "0+9x80",
            durations("count", "Evaluate", "miss"): "0+9x80",
        },
        "70m",
    ),
    # Quick refusals do not make up for slow answers: 10 of 10 answered ones are slow.
    Case(
        "HapmoeAnswersSlowly",
        "most are shed",
        {
            durations("bucket", "Evaluate", "miss", "0.25"): "0x80",
            durations("count", "Evaluate", "miss"): "0+10x80",
            durations("bucket", "Evaluate", "shed", "0.25"): "0+90x80",
            durations("count", "Evaluate", "shed"): "0+90x80",
        },
        "70m",
        ((JOB | PAGE, "100%"),),
    ),
    Case(
        "HapmoeShedsCalls",
        "one in twenty",
        {calls("OK"): "0+95x40", calls("RESOURCE_EXHAUSTED"): "0+5x40"},
        "20m",
        ((JOB | PAGE, "5%"),),
    ),
    Case(
        "HapmoeShedsCalls",
        "one in two hundred",
        {calls("OK"): "0+199x40", calls("RESOURCE_EXHAUSTED"): "0+1x40"},
        "20m",
    ),
    Case(
        "HapmoeShedsCalls",
        "a burst",
        {calls("OK"): "0+95x40", calls("RESOURCE_EXHAUSTED"): "0+5x3 15x37"},
        "11m",
    ),
    # Half wait less than 1 s, all less than 2.5 s: the 90th of 100 lies at 1 + 1.5 * 40 / 50.
    Case(
        "HapmoeCallsWait",
        "half wait",
        {
            of_planner("hapmoe_queue_wait_seconds_bucket", f',le="{le}"'): f"0+{n}x40"
            for le, n in (("1", 50), ("2.5", 100), ("+Inf", 100))
        },
        "30m",
        ((JOB | TICKET, "2.2s"),),
    ),
    Case(
        "HapmoeCallsWait",
        "one in twenty waits",
        {
            of_planner("hapmoe_queue_wait_seconds_bucket", f',le="{le}"'): f"0+{n}x40"
            for le, n in (("1", 95), ("2.5", 100), ("+Inf", 100))
        },
        "30m",
    ),
    Case(
        "HapmoeHasNoProfiles",
        "none",
        {of_planner("hapmoe_profiles_loaded"): "0x10"},
        "5m",
        ((ONE | PAGE, ""),),
    ),
    Case("HapmoeHasNoProfiles", "one", {of_planner("hapmoe_profiles_loaded"): "1x10"}, "5m"),
    Case(
        "HapmoeRefusesProfiles",
        "while it runs",
        {
            of_planner("hapmoe_profile_reload_failures_total"): "0x20 1x40",
            of_planner("process_start_time_seconds"): "-9000x60",
        },
        "25m",
        ((ONE | TICKET, ""),),
    ),
    Case(
        "HapmoeRefusesProfiles",
        "long ago",
        {
            of_planner("hapmoe_profile_reload_failures_total"): "0x20 1x40",
            of_planner("process_start_time_seconds"): "-9000x60",
        },
        "50m",
    ),
    Case(
        "HapmoeRefusesProfiles",
        "at its start",
        {
            of_planner("hapmoe_profile_reload_failures_total"): "2x60",
            of_planner("process_start_time_seconds"): "0x60",
        },
        "5m",
        ((ONE | TICKET, ""),),
    ),
    Case(
        "HapmoeRefusesProfiles",
        "at its start, long ago",
        {
            of_planner("hapmoe_profile_reload_failures_total"): "2x60",
            of_planner("process_start_time_seconds"): "0x60",
        },
        "20m",
    ),
    Case(
        "HapmoeRefusesProfiles",
        "none",
        {
            of_planner("hapmoe_profile_reload_failures_total"): "0x60",
            of_planner("process_start_time_seconds"): "0x60",
        },
        "5m",
    ),
    Case(
        "HapmoeCannotStore",
        "lost",
        {of_planner("hapmoe_storage_up"): "1x5 0x20"},
        "15m",
        ((ONE | PAGE, ""),),
    ),
    Case(
        "HapmoeCannotStore", "restarted", {of_planner("hapmoe_storage_up"): "1x5 0x2 1x20"}, "10m"
    ),
    # 2e9 / 2^30 = 1.863; nine tenths of 2 GiB are 1,932,735,283.
    Case(
        "HapmoeNearsItsMemory",
        "full",
        {of_planner("process_resident_memory_bytes"): "2000000000x20"},
        "10m",
        ((ONE | TICKET, "1.863Gi"),),
    ),
    Case(
        "HapmoeNearsItsMemory",
        "below",
        {of_planner("process_resident_memory_bytes"): "1932735283x20"},
        "10m",
    ),
    Case(
        "HapmoeNearsItsMemory",
        "for a moment",
        {of_planner("process_resident_memory_bytes"): "500000000x8 2000000000 " "500000000x20"},
        "12m",
    ),
    # One each minute: 30 in half an hour.
    Case(
        "HapmoeSearchesLackMemory",
        "one a minute",
        {of_planner("hapmoe_search_termination_total", ',reason="memory"'): "0+1x60"},
        "40m",
        ((JOB | TICKET, "30"),),
    ),
    Case(
        "HapmoeSearchesLackMemory",
        "one a quarter of an hour",
        {of_planner("hapmoe_search_termination_total", ',reason="memory"'): "0x9 1x14 2x14 3x22"},
        "50m",
    ),
    Case(
        "HapmoeSearchesLackMemory",
        "others end by their time",
        {of_planner("hapmoe_search_termination_total", ',reason="deadline"'): "0+9x60"},
        "40m",
    ),
    Case(
        "HapmoePredictsBadly",
        "30 % too short",
        {reports("sum"): "0+1.3x130", reports("count"): "0+1x130"},
        "2h",
        ((TYPE | TICKET, "30%"),),
    ),
    Case(
        "HapmoePredictsBadly",
        "30 % too long",
        {reports("sum"): "0+0.7x130", reports("count"): "0+1x130"},
        "2h",
        ((TYPE | TICKET, "30%"),),
    ),
    Case(
        "HapmoePredictsBadly",
        "a tenth off",
        {reports("sum"): "0+1.1x130", reports("count"): "0+1x130"},
        "2h",
    ),
    Case(
        "HapmoePredictsBadly",
        "few reports",
        {reports("sum"): "0+1.3x5 6.5x130", reports("count"): "0+1x5 5x130"},
        "2h",
    ),
    Case(
        "HapmoePredictsBadly",
        "corrected by now",
        {
            reports("sum", "profiles"): "0+1.3x130",
            reports("count", "profiles"): "0+1x130",
            reports("sum"): "0+1.02x130",
            reports("count"): "0+1x130",
        },
        "2h",
    ),
)
