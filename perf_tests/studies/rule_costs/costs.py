"""The costs of breaking each rule, as figures and as the sentences in the package."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import cattrs

from netpipe.errors import HarnessError
from netpipe.results.measurement import Host


@dataclass(frozen=True)
class Figure:
    """One quantity of a pipeline that breaks a rule and of the corrected one.

    Attributes:
        wrong: The median over the rounds for the pipeline that breaks the rule, in `unit`.
        setting: The conditions, worded to follow the unit; "" if the unit says everything.
        error: What the wrong pipeline raised instead of a batch; "" if it runs.
        rounds: The two values of every round.
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

        For three rounds without a difference this happens by chance once in ten times, by the
        rank-sum test: Mann and Whitney, Ann. Math. Statist. 18 (1947).
        """
        wrongs, rights = zip(*(self.rounds or ((self.wrong, self.right),)), strict=True)
        return bool(max(wrongs) < min(rights) or max(rights) < min(wrongs))

    def __str__(self) -> str:
        """Return the figure in words."""
        if self.error:
            return f"no batch, but {self.error}"
        wrong, right = _format(self.wrong), _format(self.right)
        unit = f"{self.unit} {self.setting}".strip()
        if not self.differs:
            return f"{wrong} and {right} {unit}, without a clear difference"
        return f"{wrong} instead of {right} {unit}"


@dataclass(frozen=True)
class RuleCosts:
    """One run of the benchmark, which ended at `date` (ISO 8601 in UTC).

    `later` has the rules that later runs on the same machine completed, each with the date and the
    commit of the last of these runs.
    """

    date: str
    commit: str
    command: str
    host: Host
    versions: Mapping[str, str]
    rules: Mapping[str, tuple[Figure, ...]]
    later: Mapping[str, str] = field(default_factory=dict)
    schema: str = "netpipe.rule_costs/1"

    def has(self, rule: str, unit: str, setting: str) -> bool:
        """Whether a quantity of a rule was measured."""
        figures = self.rules.get(rule, ())
        return any((figure.unit, figure.setting) == (unit, setting) for figure in figures)

    def add(self, run: "RuleCosts") -> "RuleCosts":
        """Return these costs with the figures of a run that measured missing ones.

        Raises:
            HarnessError: The run was on another machine, or with other versions.
        """
        here, there = (
            (costs.host.cpu, costs.host.cores, *costs.versions.items()) for costs in (run, self)
        )
        if here != there:
            raise HarnessError(
                f"--record must run where the other figures were measured, on {there}; found"
                f" {here}. Remove costs.json to measure all of them"
            )
        rules = {rule: (*self.rules.get(rule, ()), *new) for rule, new in run.rules.items()}
        when = dict.fromkeys(run.rules, f"{run.date} at {run.commit}")
        return replace(self, rules={**self.rules, **rules}, later={**self.later, **when})

    def describe(self, rule: str) -> str:
        """Return the first figure of a rule, as findings print it; "" if it was not measured."""
        figures = [replace(figure, setting="") for figure in self.rules.get(rule, ())[:1]]
        return "".join(f"in an example: {figure}" for figure in figures)

    def describe_figures(self, rule: str) -> str:
        """Return the figures of a rule."""
        return "; ".join(map(str, self.rules.get(rule, ())))

    @property
    def origin(self) -> str:
        """The release of Grain and the machine that the figures were measured with."""
        # Without trademarks, clock speed and the word "processor".
        cpu = " ".join(re.sub(r"\((R|TM)\)|\b(CPU|Processor)\b|@.*", " ", self.host.cpu).split())
        return f"measured with Grain {self.versions['grain']} on {self.host.cores} cores, {cpu}"


def read_costs(path: Path) -> RuleCosts:
    """Read the file that `--record` wrote."""
    return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), RuleCosts)


def _format(value: float) -> str:
    """Format with three significant digits: the figures of two runs differ in the third."""
    return f"{float(f'{value:.3g}'):,.15g}"
