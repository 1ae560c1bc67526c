"""The measured figures as the document that is packaged."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version
from typing import Final

from netpipe.device.host import this_host
from netpipe.git import git
from netpipe.linting.rules.costs import FILE, Figure, RuleCosts
from perf_tests.studies.rule_costs.document import ROOT

COMMAND: Final = "python -m perf_tests.studies.rule_costs --record"
COSTS_FILE: Final = ROOT / "netpipe" / "linting" / "rules" / FILE
_PACKAGES: Final = ("grain", "jax", "numpy")


def describe_run(rules: Mapping[str, tuple[Figure, ...]]) -> RuleCosts:
    """Return figures with the machine, the time and the versions of the run."""
    return RuleCosts(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=git(ROOT, "describe", "--always", "--dirty", "--abbrev=12"),
        command=COMMAND,
        host=this_host(),
        versions={"python": python_version(), **{name: version(name) for name in _PACKAGES}},
        rules=rules,
    )


def render_json(costs: RuleCosts) -> str:
    """Return the text of the costs file."""
    return json.dumps(asdict(costs), indent=1, allow_nan=False) + "\n"
