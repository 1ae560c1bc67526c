"""What each mistake costs, as the repository's benchmark measured it.

`python -m perf_tests.studies.rule_costs --record` writes the figures, which ship with the
package.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, Literal

import cattrs
from cattrs.errors import BaseValidationError

from netpipe.errors import InputError
from netpipe.results.measurement import Host

SCHEMA: Final = "netpipe.rule_costs/1"
FILE: Final = "costs.json"
_DIGITS: Final = 3


@dataclass(frozen=True)
class Figure:
    """One quantity of a pipeline that breaks a rule, against that of the one put right.

    Attributes:
        wrong: The median over the rounds, in `unit`.
        right: The same of the pipeline put right.
        unit: What is counted, worded to follow the two numbers: "elements/s".
        setting: Under which conditions, worded to follow the unit; "" where the unit says all.
        error: What the wrong pipeline raised instead of a batch; "" where it runs.
        rounds: The two values of every round, in the order in which they were measured.
    """

    wrong: float
    right: float
    unit: str
    setting: str = ""
    error: str = ""
    rounds: tuple[tuple[float, float], ...] = ()

    @property
    def differs(self) -> bool:
        """Whether all wrong values lie on one side of all right ones.

        Of three rounds without a difference this happens by chance once in ten times, by their
        orders: Mann and Whitney, Ann. Math. Statist. 18 (1947).
        """
        wrongs, rights = zip(*(self.rounds or ((self.wrong, self.right),)), strict=True)
        return bool(max(wrongs) < min(rights) or max(rights) < min(wrongs))

    def __str__(self) -> str:
        """Return it in words."""
        if self.error:
            return f"no batch, but {self.error}"
        wrong, right = _number(self.wrong), _number(self.right)
        what = " ".join(filter(None, (self.unit, self.setting)))
        if not self.differs:
            return f"{wrong} and {right} {what}, which is no clear difference"
        return f"{wrong} instead of {right} {what}"


@dataclass(frozen=True)
class RuleCosts:
    """A run of the benchmark.

    Attributes:
        date: When it ended, ISO 8601 in UTC.
        commit: What was measured, as `git describe` names it.
        command: The command that measures it again.
        host: Where.
        versions: Of python, grain, jax and numpy.
        rules: The figures of every rule that was measured.
    """

    date: str
    commit: str
    command: str
    host: Host
    versions: Mapping[str, str]
    rules: Mapping[str, tuple[Figure, ...]]
    schema: Literal["netpipe.rule_costs/1"] = SCHEMA

    def __post_init__(self) -> None:
        """Check that the figures say what they were measured with."""
        if "grain" not in self.versions:
            raise ValueError("versions must name grain")

    def sentence(self, rule: str) -> str:
        """Return what breaking a rule costs and where that was measured; "" if it was not."""
        figures = self.rules.get(rule, ())
        if not figures:
            return ""
        where = f"{self.host.cores} cores, {_short(self.host.cpu)}"
        measured = f"(measured with Grain {self.versions['grain']} on {where})"
        return f"{'; '.join(map(str, figures))} {measured}"


def describe_cost(rule: str) -> str:
    """Return what breaking a rule costs, with its unit, its setting and where it was measured.

    Args:
        rule: The rule's name.

    Returns:
        One sentence without a full stop; "" for a rule whose cost was not measured.

    Raises:
        InputError: The figures shipped with the package are damaged.
    """
    return load_packaged_costs().sentence(rule)


@cache
def load_packaged_costs() -> RuleCosts:
    """Return the figures that are shipped with the package.

    Raises:
        InputError: They are damaged.
    """
    return read_costs(files("netpipe.linting.rules") / FILE)


def read_costs(file: Traversable) -> RuleCosts:
    """Read what a run of the benchmark wrote.

    Raises:
        InputError: The file is no `netpipe.rule_costs/1` document.
    """
    way_out = "Install netpipe again, or run: python -m perf_tests.studies.rule_costs --record"
    try:
        document: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(file, "content", "be JSON", error, way_out) from error
    if not isinstance(document, dict):
        raise InputError(file, "content", f"be {SCHEMA}", repr(document), way_out)
    try:
        return _converter.structure(document, RuleCosts)
    except BaseValidationError as error:
        found = "; ".join(cattrs.transform_error(error))
        raise InputError(file, "content", f"be {SCHEMA}", found, way_out) from error


_converter: Final = cattrs.Converter(forbid_extra_keys=True)


@_converter.register_structure_hook
def _checked_number(value: object, _: type) -> float:
    """Take numbers alone: cattrs would read text and booleans as numbers too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"not a number: {value!r}")
    return float(value)


def _number(value: float) -> str:
    """Format with three significant digits: the figures of two runs differ in the third."""
    rounded = float(f"{value:.{_DIGITS}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (_DIGITS - 1) else f"{rounded:g}"


def _short(cpu: str) -> str:
    """Name a CPU without marks, clock speed and the word processor."""
    return " ".join(re.sub(r"\((R|TM)\)|\b(CPU|Processor)\b|@.*", " ", cpu).split())
