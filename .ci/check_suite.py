"""Check a run of the performance tests: `python .ci/check_suite.py RUN_JSON JUNIT_XML`.

The run fails if a count of work fell below its baseline, because later rises up to the old count
would pass. Its time is compared with a ceiling and only reported: machines differ.
"""

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

# The goal; with a baseline, the tests take 65 s on two AMD EPYC cores (docs/performance.md).
CEILING_S = 60.0


def find_stale(run: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the reason of each count of work that is lower than in its baseline."""
    rows = (row for row in run["comparisons"] if row["outcome"] == "IMPROVED")
    return [row["reason"] for row in rows if row["quantity"] == "work" and row["against"] is None]


def describe_time(suite_s: float) -> str:
    """Compare the time of the performance tests with the ceiling."""
    relation = "within" if suite_s <= CEILING_S else "above"
    return f"the performance tests took {suite_s:.0f} s, {relation} the ceiling of {CEILING_S:g} s"


def main(run: str, junit: str) -> None:
    """Print the time, and exit with 1 if a baseline of work is stale."""
    suites = ElementTree.parse(junit).getroot().iter("testsuite")
    suite_s = sum(float(suite.attrib["time"]) for suite in suites)
    sys.stdout.write(describe_time(suite_s) + "\n")
    if stale := find_stale(json.loads(Path(run).read_text(encoding="utf-8"))):
        way_out = "record a baseline of work: pytest perf_tests/test_work.py --netpipe-record NAME"
        sys.exit("\n".join([*stale, way_out]))


if __name__ == "__main__":
    main(*sys.argv[1:])
