"""The command that runs a test as a session, and the key of the test's subject."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import pytest

from netpipe.jobs.targets import Factories

SUBJECT_FIXTURES: Final = tuple(
    f"netpipe_{field.name}" for field in fields(Factories) if not field.kw_only
)

# Flags of a run that are not passed on to its sessions.
_RUN_ONLY: Final = (
    "--basetemp", "--benchmark", "--cache", "--collect", "--cov", "--dist", "--durations",
    "--exitfirst", "--ff", "--failed-first", "--junit", "--last-failed", "--lf", "--maxfail",
    "--netpipe-against", "--netpipe-device", "--netpipe-json", "--netpipe-report",
    "--netpipe-record", "--netpipe-sessions", "--numprocesses", "--pdb", "--reruns", "--stepwise",
    "--sw", "--tx", "-n", "-x", "-k", "-m", "-v", "-q", "-s",
)  # fmt: skip
# The other version needs them in a command that compares again.
_EXTRAS: Final = "--netpipe-against-extras"


@dataclass(frozen=True)
class Subject:
    """A loader with its step and loop, measured with one accelerator.

    Attributes:
        key: Identifies the loader, the step and the loop.
        command: The command that runs a session of the subject.
        name: The id of the first test that requested the subject.
    """

    key: tuple[object, ...]
    accelerator: str
    command: Sequence[str]
    name: str

    @property
    def full_key(self) -> tuple[object, ...]:
        """The key together with the accelerator."""
        return (self.key, self.accelerator)


def marked_accelerator(item: pytest.Item) -> str | None:
    """Return the accelerator that the markers of a test name; None if they name none."""
    markers = (marker.kwargs for marker in item.iter_markers("netpipe"))
    return next((str(each["accelerator"]) for each in markers if "accelerator" in each), None)


def node_command(config: pytest.Config, node_id: str) -> list[str]:
    """Return the command that runs one test node alone, with this run's configuration."""
    # A path object would collapse a double slash in the name of a parametrized test.
    command = [sys.executable, "-m", "pytest", f"{config.rootpath}/{node_id}"]
    command += [f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    if hasattr(config.option, "numprocesses"):
        command += ["-n0"]
    # Override expressions in addopts, which might deselect the test. Each expression is joined to
    # its flag, so that it is not taken for a path.
    for flag, expression in (("-m", config.option.markexpr), ("-k", config.option.keyword)):
        command += [f"{flag}{expression}"] if expression else [flag, ""]
    return [*command, *_forwarded(config)]


def repeating_command(config: pytest.Config, node_id: str, against: str) -> str:
    """Return the command that compares a benchmark again, with a ref or with the baseline."""
    path, colons, name = node_id.partition("::")
    here = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    compares = ["--netpipe-against", against] if against else ["--benchmark-compare"]
    command = ["pytest", f"{here}{colons}{name}", *compares]
    if config.option.markexpr:  # Another expression in addopts might deselect the test.
        command += ["-m", config.option.markexpr]
    return shlex.join([*command, *_forwarded(config)])


def _forwarded(config: pytest.Config) -> Iterator[str]:
    """Yield the flags of this run that are passed on to its sessions, with their values."""
    is_run_only = False
    for argument in map(str, config.invocation_params.args):
        if argument.startswith("-"):
            is_run_only = argument.startswith(_RUN_ONLY) and not argument.startswith(_EXTRAS)
        if not is_run_only and argument not in config.args:
            yield argument


def covers(config: pytest.Config, node_id: str) -> bool:
    """Return whether the folders, files, classes or tests given to this run include a node id."""
    path, name = _locate(config.rootpath, node_id)
    given = (_locate(config.invocation_params.dir, argument) for argument in config.args)
    return any(
        path.is_relative_to(within)
        and (not chosen or name == chosen or name.startswith((f"{chosen}::", f"{chosen}[")))
        for within, chosen in given
    )


def _locate(folder: Path, node_id: str) -> tuple[Path, str]:
    # pytest does not resolve links in the root or in its arguments.
    path, _, name = node_id.partition("::")
    return (folder / path).resolve(), name


def subject_key(request: pytest.FixtureRequest) -> tuple[object, ...]:
    """Return a key that identifies a loader, step and loop, without making them.

    Tests share a measurement if the subject's fixtures, and all fixtures that these request, have
    the same definitions and the same parameters for them.
    """
    manager = request.session._fixturemanager  # noqa: SLF001  # pytest offers no other way
    definitions: dict[str, tuple[object, ...]] = {}
    names = list(SUBJECT_FIXTURES)
    for name in names:
        if name not in definitions:
            found = manager.getfixturedefs(name, request.node) or ()
            definitions[name] = tuple((definition.baseid, definition.func) for definition in found)
            for definition in found:
                names += definition.argnames
    callspec = getattr(request.node, "callspec", None)
    parameters = {} if callspec is None else callspec.params
    return (
        tuple((name, definitions[name]) for name in sorted(definitions)),
        tuple((name, parameters[name]) for name in sorted(parameters) if name in definitions),
    )
