"""What a run is held against: accepted baselines, waivers, and what the change does to both."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from rich.table import Table

from netpipe.errors import InputError
from netpipe.gate import waivers
from netpipe.gate.baseline_changes import FileChange, change_table, file_changes
from netpipe.gate.comparison import Comparison, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.suite.accepted_tree import Commit, accepted_commit, write_tree
from netpipe.suite.options import Options


@dataclass(frozen=True)
class Acceptance:
    """What this run is held against.

    Attributes:
        baselines: The folder of the accepted baselines.
        shown: What that folder is called in the working tree, from the root on.
        commit: Whose baselines they are; None for those of the working tree.
        changes: What the working tree has otherwise.
        waivers: Those of the working tree.
        added: Those of them that the commit does not have.
        today: Decides which waivers are expired.
    """

    baselines: Path = Path("baselines")
    shown: str = "baselines"
    commit: Commit | None = None
    changes: tuple[FileChange, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    added: tuple[Waiver, ...] = ()
    today: date = field(default_factory=date.today)

    @property
    def waivers_file(self) -> str:
        """Where the waivers are, from the root on."""
        return f"{self.shown}/{waivers.FILE}"

    def judged(
        self, comparison: Comparison, benchmark: str, device_key: str
    ) -> tuple[Comparison, Waiver | None]:
        """Return a comparison, which says it where its waiver does not reach, and its waiver."""
        found = waivers.waived(comparison, self.waivers, benchmark, device_key, self.today)
        beyond = waivers.concerning(self.waivers, benchmark, comparison.metric, device_key)
        if found or not beyond or comparison.outcome is not Outcome.REGRESSED:
            return comparison, found
        is_expired = beyond.is_expired(self.today)
        said = f"expired on {beyond.expires}" if is_expired else f"allows {beyond.bound:g} x"
        return replace(comparison, reason=f"{comparison.reason}; its waiver {said}"), None


def acceptance(
    options: Options, root: Path, environment: Mapping[str, str], temporary: Callable[[], Path]
) -> Acceptance:
    """Read what a run is held against.

    Args:
        options: Where baselines lie, and from which commit they are read.
        root: The root folder of the project.
        environment: Says what is tested, as GitHub Actions and GitLab set it.
        temporary: Makes a folder that lives as long as the run; called where a commit is read.

    Raises:
        InputError: The commit is not here, or what the change adds is damaged.
    """
    here = options.baselines
    held = Acceptance(
        baselines=here,
        shown=here.relative_to(root).as_posix() if here.is_relative_to(root) else str(here),
        waivers=waivers.load(here / waivers.FILE),
    )
    commit = accepted_commit(options.baselines_at, root, environment)
    if commit is None:
        return held
    accepted = temporary() / f"{here.name}@{commit.sha[:7]}"  # errors name files in it
    write_tree(commit, here, root, accepted)
    before = _waivers_before(accepted)
    return replace(
        held,
        baselines=accepted,
        commit=commit,
        changes=tuple(file_changes(accepted, here)),
        added=tuple(one for one in held.waivers if one not in before),
    )


def _waivers_before(accepted: Path) -> tuple[Waiver, ...]:
    try:
        return waivers.load(accepted / waivers.FILE)
    except InputError:
        return ()  # the change may be the one that mends the file


def acceptance_lines(held: Acceptance) -> Iterator[str]:
    """Give which baselines were compared with, and what the change under test does to them."""
    if held.commit is not None:
        yield f"baselines of {held.commit.sha[:7]}, {held.commit.what}"
    for _, line in change_notes(held):
        yield line


def change_notes(held: Acceptance) -> Iterator[tuple[str, str]]:
    """Give each change that is to be seen: the file, from the root on, and a line."""
    for one in held.changes:
        told = "; ".join((_told(one), *one.dropped))
        yield f"{held.shown}/{one.file}", f"baseline changed: {told}"
    for waiver in held.added:
        yield held.waivers_file, f"waiver added by this change: {waiver.name}, {_terms(waiver)}"


def _told(change: FileChange) -> str:
    if change.after is None:
        return f"{change.kind} {change.file}, which leaves {change.device} without a baseline"
    if change.kind == "removed":
        return f"removed {change.file}; {change.after.path.name} would be compared with"
    if change.before is None:
        return f"{change.kind} {change.file}, the first that can be read of {change.device}"
    if change.kind == "replaced":
        return f"replaced {change.file}, under the same name"
    return f"added {change.file}; {change.before.path.name} is what was accepted before"


def _terms(waiver: Waiver) -> str:
    return f"at most {waiver.bound:g} x the baseline's, {waiver.words}"


def change_tables(held: Acceptance) -> Iterator[Table]:
    """Give old and new side by side, for each file that changed."""
    for one in held.changes:
        figures = one.figures
        if figures is not None:
            yield change_table(figures, f"baseline changed: {one.file}")


def difference_lines(held: Acceptance) -> Iterator[str]:
    """Give what else is not alike between old and new, so that figures may differ for it."""
    for one in held.changes:
        for line in one.figures.differences if one.figures else ():
            yield f"not alike in {one.file}: {line}"


def acceptance_document(held: Acceptance) -> dict[str, Any]:
    """Give what `netpipe/schemas/run.1.json` says under `accepted`."""
    return {
        "commit": held.commit and held.commit.sha,
        "baseline_changes": [one.to_document() for one in held.changes],
        "waivers": [
            {**waiver_document(one), "is_added": one in held.added} for one in held.waivers
        ],
    }


def waiver_document(waiver: Waiver) -> dict[str, Any]:
    """Give a waiver as JSON."""
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}
