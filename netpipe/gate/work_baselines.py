"""Baselines of work: valid on any host, and chosen by the versions of the measured packages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal, NotRequired, TypedDict

from netpipe.gate.baseline import list_all, read_document, refuse_moved, write_baseline
from netpipe.gate.outcomes import UNJUDGED, Comparison, Outcome
from netpipe.gate.work_comparison import compare_work
from netpipe.results.fields import Text, parse
from netpipe.results.work_profile import KINDS, WorkProfile, is_of_step, keep_own

WORK_FOLDER: Final = "work"
"""The name of the folder for baselines of work, beside the devices' folders."""

SCHEMA: Final = "netpipe.work-baseline/1"
_DO_THE_WORK: Final = ("python", "grain", "jax", "numpy", "pyarrow", "array-record")
_PACKAGES: Final = {
    *(name.replace("-", "_") for name in _DO_THE_WORK),
    *("jaxlib", "absl", "cloudpickle", "etils", "google", "ml_dtypes", "opt_einsum", "scipy"),
}
"""The modules of these packages and of those that Grain and JAX require."""


class ProfilesPart(TypedDict):
    """The counts in a baseline of work."""

    schema: Literal["netpipe.work-baseline/1"]
    profiles: Mapping[str, WorkProfile]  #: The counts of each test, by its full name.
    removed: NotRequired[Sequence[str]]  #: Tests of earlier baselines that no longer exist.
    digest: str


class WorkBaselineDocument(TypedDict):
    """A baseline of work."""

    datetime: Text  #: The time of the recording, as ISO 8601.
    commit_info: Mapping[str, object]  #: The counted commit, as pytest-benchmark describes it.
    netpipe: ProfilesPart


@dataclass(frozen=True)
class WorkBaseline:
    """One recording: the profiles of some tests, by full name of the test."""

    path: Path
    profiles: Mapping[str, WorkProfile]
    recorded: str = ""  #: The time of the recording, as ISO 8601.
    removed: Sequence[str] = ()  #: Tests of earlier baselines that no longer exist.

    @property
    def name(self) -> str:
        """The key and file name, which identify the baseline."""
        return f"{WORK_FOLDER}/{self.path.parent.name}/{self.path.name}"

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of Python and the packages, equal in all profiles; empty without any."""
        return next((profile.versions for profile in self.profiles.values()), {})


def work_key(versions: Mapping[str, str]) -> str:
    """Return the folder's name for profiles of these versions: `python3.11.7-grain0.2.18-...`.

    Packages that are not installed are omitted.
    """
    found = {name: versions[name] for name in _DO_THE_WORK if name in versions}
    return "-".join(f"{name.replace('-', '')}{version}" for name, version in found.items())


def load_work_baselines(folder: Path) -> tuple[WorkBaseline, ...]:
    """Return the baselines in `<baselines>/work/<key>`, latest last; errors as in `load_all`."""
    return tuple(map(_load, list_all(folder, SCHEMA)))


def load_nearest(folder: Path, versions: Mapping[str, str]) -> tuple[WorkBaseline, ...]:
    """Return the baselines in `<baselines>/work` of these versions, or else of the most similar.

    The minor version of Python is always the same: another one calls other functions. Of equally
    similar versions, those recorded last are returned.
    """
    key = work_key(versions)

    def similarity(baselines: Sequence[WorkBaseline]) -> tuple[int, str]:
        others = work_key(baselines[-1].versions)
        return -len({*key.split("-")} ^ {*others.split("-")}), baselines[-1].recorded

    python = "python" + versions["python"].rpartition(".")[0] + "."
    found = filter(None, map(load_work_baselines, folder.glob(f"{python}*/")))
    return max(found, key=similarity, default=())


def describe_versions(now: Mapping[str, str], then: Mapping[str, str]) -> str:
    """Return the versions that differ, such as "grain 0.2.18 instead of 0.2.17"; "" if none do."""
    return ", ".join(
        f"{name} {now.get(name, 'none')} instead of {then.get(name, 'none')}"
        for name in _DO_THE_WORK
        if now.get(name) != then.get(name)
    )


def _load(path: Path) -> WorkBaseline:
    document = read_document(path, SCHEMA, "work-baseline.1")
    profiles = document["netpipe"]["profiles"]
    for profile in profiles.values():
        refuse_moved(path, "versions", work_key(profile["versions"]))
    parsed = {name: parse(profiles[name], WorkProfile, path) for name in profiles}
    removed = tuple(document["netpipe"].get("removed", ()))
    return WorkBaseline(path, parsed, document["datetime"], removed)


def find_counted(baselines: Sequence[WorkBaseline]) -> set[str]:
    """Return the tests that `baselines`, latest last, hold and no later one has removed."""
    tests = {test for each in baselines for test in each.profiles}
    return {test for test in tests if _find_holders(test, baselines)}


def _find_holders(test: str, baselines: Sequence[WorkBaseline]) -> list[WorkBaseline]:
    """Return the baselines that hold a test, newest first, back to the one that removed it."""
    newer = takewhile(lambda each: test not in each.removed, reversed(baselines))
    return [each for each in newer if test in each.profiles]


def compare_with_baselines(
    test: str, now: WorkProfile, baselines: Sequence[WorkBaseline]
) -> tuple[Comparison, ...]:
    """Compare a test's work with the newest baseline that holds the test, if there is one.

    The step is compared with the newest baseline that has the same step backend, if there is one.
    """
    holders = _find_holders(test, baselines)
    of_backend = [each for each in holders if each.profiles[test].step_backend == now.step_backend]
    compared: list[Comparison] = []
    for holder in holders[:1]:
        compared += _compare(now, holder.profiles[test], holder.name)
    for holder in of_backend[:1]:
        found = _compare(now, holder.profiles[test], holder.name)
        of_step = {each.metric: each for each in found if is_of_step(each.metric)}
        compared = [of_step.pop(each.metric, each) for each in compared] + [*of_step.values()]
    return tuple(compared)


def _compare(now: WorkProfile, then: WorkProfile, baseline: str) -> tuple[Comparison, ...]:
    """Compare two profiles; with other versions, leave out what these may change."""
    differ = describe_versions(now.versions, then.versions)
    if not differ:
        return compare_work(now, then, baseline)
    now, then = keep_own([now, then], _PACKAGES)
    compared = compare_work(now, then, baseline)
    return tuple(
        _mark_not_judged(found, differ) if _is_of_libraries(found, now, then) else found
        for found in compared
    )


def _is_of_libraries(found: Comparison, now: WorkProfile, then: WorkProfile) -> bool:
    """Return whether other versions may explain a difference, or nothing is left to compare."""
    if found.outcome in UNJUDGED:
        return False
    if KINDS[found.metric].parts == "functions":
        return not (now.ranges(found.metric) or then.ranges(found.metric))
    return found.outcome is not Outcome.PASS and not (
        found.metric == "batch_bytes" or is_of_step(found.metric)
    )


def _mark_not_judged(found: Comparison, differ: str) -> Comparison:
    reason = f"{found.reason}; not judged, since the versions differ: {differ}"
    return replace(found, outcome=Outcome.NOT_COMPARED, worse=None, reason=reason)


def save_work(
    folder: Path,
    name: str,
    commit_info: Mapping[str, object],
    profiles: Mapping[str, WorkProfile],
    removed: Sequence[str] = (),
) -> Path:
    """Write a baseline to `<baselines>/work/<key>`, as `write_baseline` does.

    `commit_info` describes the commit as pytest-benchmark does. `removed` are tests of earlier
    baselines that no longer exist.
    """
    documents_of = {test: profile.to_document() for test, profile in profiles.items()}
    gone = {"removed": sorted(removed)} if removed else {}
    document = {
        "datetime": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit_info": commit_info,
        "netpipe": {"schema": SCHEMA, "profiles": documents_of, **gone},
    }
    return write_baseline(folder, name, document)
