"""Judge a change: ask every question about two versions of a loader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from netpipe.duets.duet_request import DuetRequest
from netpipe.duets.parent import Request, Side, name_failures, run_duet
from netpipe.errors import NetpipeError, first_line
from netpipe.gate.duets import decide_in_duets
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.work_comparison import compare_in_turns
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.targets import Target
from netpipe.judge.checks import METRICS, check_resumes, check_speed
from netpipe.judge.declared import read_declared
from netpipe.judge.delivered import check_shuffled
from netpipe.judge.judgement import NOT_COMPARED, QUESTIONS, Check, Judgement, declare, judge_checks
from netpipe.judge.reading import Reading, ReadRequest, read_batches
from netpipe.judge.same_data import check_complete, compare_data
from netpipe.other_version import Version
from netpipe.results.work_profile import DATA_KINDS, WorkProfile
from netpipe.resuming.checking import ResumeReport, ResumeRequest, check_resume
from netpipe.work_counts.reproducible_counts import WorkRequest, count_work


@dataclass(frozen=True)
class Change:
    """The working tree in a folder, beside another version of it, the base.

    Attributes:
        targets: The targets of the loader, and of the step if its work is counted too.
        batches: The most batches that are compared in each pass.
        budget_s: Seconds for timing, of which each duet takes half.
        limits: Settings of every session, such as `start_limit_s`.
    """

    base: Version
    folder: Path
    targets: Mapping[str, Target]
    batches: int = 256
    budget_s: float = 20.0
    is_timed: bool = True
    claims_faster: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)
    progress: OnProgress | None = None

    def judge(self) -> Judgement:
        """Answer every question about the change, and judge it.

        Raises:
            NetpipeError: A version cannot be read, or pyproject.toml is invalid.
        """
        checks = self.check_data()
        is_same = "the same" if checks[0].status == "worse" else "compared"
        why, others = f"the data are not {is_same}", list[Check]()
        if checks[0].status == "fine":
            others.append(check_resumes(self._resume, partial(self._resume, of_base=True)))
            try:
                others += self._check_speed()
            except NetpipeError as error:
                why = first_line(error)
        questions = QUESTIONS[len(checks) + len(others) :]
        others += [Check(question, NOT_COMPARED, why) for question in questions]
        checks += [declare(check, self._reasons) for check in others]
        label = self.base.checkout.commit.label
        return judge_checks(checks, label, str(self.targets["loader"]))

    def check_data(self) -> list[Check]:
        """Say whether the batches, their order and the elements of an epoch are those of the base.

        Raises:
            NetpipeError: A version cannot be read, or pyproject.toml is invalid.
        """
        reasons = self._reasons  # An invalid declaration is an error before anything is read.
        now, then = self._read("1"), self._read("0", of_base=True)
        data, shuffled = compare_data(now, then), Check("shuffled", "NO_WORSE", "in the same order")
        if data.status != "fine":
            try:
                source = self._read("0", of_base=True, shuffles=False)
                shuffled = check_shuffled(now, then, source)
            except NetpipeError as error:
                why = f"the base cannot be read without its shuffle: {first_line(error)}"
                shuffled = Check("shuffled", NOT_COMPARED, why)
            if compare_data(self._read("1", of_base=True), then).status == "worse":
                why = (
                    "the base gives other batches in each process: commit a seed for every random "
                    "choice, and judge against that commit"
                )
                data = Check("data", NOT_COMPARED, why)
            elif compare_data(self._read("0"), now).status == "worse":
                why = "this version gives other batches in each process"
                data = replace(data, reason=f"{why}; {data.reason}")
        checks = (data, shuffled, check_complete(now, then))
        return [declare(check, reasons) for check in checks]

    def compare_work(self) -> tuple[WorkProfile, Sequence[Comparison]]:
        """Count the work of both versions; return this one's profile, and the comparisons."""
        count_then = partial(self._count_work, of_base=True)
        then = count_then()  # First, because it refuses a file outside the repository.
        return compare_in_turns(self._count_work(), then, self._count_work, count_then)

    @cached_property
    def _reasons(self) -> dict[str, str]:
        return read_declared(self.folder, self.base.place(self.folder).folder or self.folder)

    def _check_speed(self) -> list[Check]:
        try:
            _, work = self.compare_work()
        except NetpipeError as error:
            if not self.is_timed:
                raise
            why = f"work was not counted: {first_line(error)}"
            work = [Comparison(Outcome.NOT_COMPARED, "calls", 0.0, None, why)]
        counts = [each for each in work if each.metric not in DATA_KINDS]
        timed = self._time().metrics if self.is_timed else ()
        return check_speed(counts, timed, claims_faster=self.claims_faster)

    def _make_side(self, request: Request, *, of_base: bool) -> Side[Request]:
        """Return one version's command, request and environment."""
        base, made = self.base, replace(request, **self.limits)
        if not of_base:
            return Side("this version", CHILD_COMMAND, base.request_here(made))
        command = (base.python, *CHILD_COMMAND[1:])
        label, place = base.checkout.commit.label, base.place(self.folder)
        return Side(label, command, base.request_there(made), place)

    @property
    def _loader(self) -> dict[str, Target]:
        return {"loader": self.targets["loader"]}

    def _read(self, seed: str, *, of_base: bool = False, shuffles: bool = True) -> Reading:
        asked = ReadRequest(targets=self._loader, batches=self.batches, shuffles=shuffles)
        return read_batches(self._make_side(asked, of_base=of_base), seed, self.progress)

    def _resume(self, *, of_base: bool = False) -> ResumeReport:
        side = self._make_side(ResumeRequest(targets=self._loader), of_base=of_base)
        return check_resume(side.command, side.request, self.progress, side.environment)

    def _count_work(self, *, of_base: bool = False, **seeds: Any) -> WorkProfile:
        side = self._make_side(WorkRequest(targets=self.targets), of_base=of_base)
        place, progress = side.environment, self.progress
        with name_failures(side.name):
            return count_work(side.command, side.request, place, progress, **seeds)

    def _time(self) -> Comparison:
        asked = DuetRequest(targets=self._loader, budget_s=self.budget_s)
        base, now = (self._make_side(asked, of_base=of_base) for of_base in (True, False))
        now = replace(now, progress=self.progress)
        return decide_in_duets(asked.quantity, [], lambda: run_duet(base, now), self._is_declared)

    def _is_declared(self, metric: Comparison) -> bool:
        return any(
            metric.metric in names and f"{question} {metric.outcome}" in self._reasons
            for question, names in METRICS.items()
        )
