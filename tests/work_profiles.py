"""Work profiles for tests: of a loader whose `batch` calls `encode` once for each of 128 rows."""

from dataclasses import replace
from typing import Any

from netpipe.results.work_profile import WorkProfile

CALLERS = {
    "rows.batch": {"": 1.0},
    "rows.encode": {"rows.batch": 128.0},
    "builtins.len": {"rows.encode": 256.0, "rows.batch": 2.0},
}
VERSIONS = {"python": "3.11.7", "grain": "0.2.18", "jax": "0.10.2", "array-record": "0.8.3"}
PROFILE = WorkProfile(
    versions=VERSIONS,
    batches=16,
    fingerprint="data",
    counts={
        "calls": {name: sum(callers.values()) for name, callers in CALLERS.items()},
        "allocated_bytes": {"rows.batch": 1_000_000.0, "rows.encode": 2_000_000.0},
        "sent_bytes": {"": 260_000.0},
        "batch_bytes": {"tokens": 524_288.0},
    },
    callers=CALLERS,
    arrays={"tokens": "int32[128,1024]"},
)


def make_profile(**changes: Any) -> WorkProfile:
    """Return the profile with some fields changed."""
    return replace(PROFILE, **changes)


def with_calls(callers: dict[str, dict[str, float]]) -> WorkProfile:
    """Return the profile with other calls per function and caller."""
    calls = {name: sum(each.values()) for name, each in callers.items()}
    return make_profile(counts={**PROFILE.counts, "calls": calls}, callers=callers)


def with_count(kind: str, **parts: float) -> WorkProfile:
    """Return the profile with other counts of one kind; "total" is that of a kind without parts."""
    counts = {"" if part == "total" else part.replace("__", "."): n for part, n in parts.items()}
    return make_profile(counts={**PROFILE.counts, kind: counts})
