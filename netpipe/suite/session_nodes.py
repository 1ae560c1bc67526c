"""A test node as a session: the command of its fresh process, and the code that runs there."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

from netpipe.linting.request import LintRequest
from netpipe.measuring.child import serve
from netpipe.measuring.request import Factories, MeasureRequest
from netpipe.session.child import run_job
from netpipe.session.request import SessionRequest
from netpipe.session.result_files import error_document, write_result

SUBJECT_FIXTURES: Final = tuple(f"netpipe_{field.name}" for field in fields(Factories))

# Flags whose effect belongs to the run, not to a session of it.
_RUN_ONLY: Final = (
    "--basetemp", "--benchmark", "--cache", "--collect", "--cov", "--dist", "--durations",
    "--exitfirst", "--ff", "--failed-first", "--junit", "--last-failed", "--lf", "--maxfail",
    "--netpipe-against", "--netpipe-device", "--netpipe-json", "--netpipe-report",
    "--netpipe-record", "--netpipe-sessions", "--numprocesses", "--pdb", "--reruns", "--stepwise",
    "--sw", "--tx", "-n", "-x", "-k", "-m", "-v", "-q", "-s",
)  # fmt: skip


def node_command(config: pytest.Config, node_id: str) -> list[str]:
    """Return the command that runs one test node alone, with this run's configuration."""
    command = [sys.executable, "-m", "pytest", str(config.rootpath / node_id)]
    command += [f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    if config.pluginmanager.hasplugin("xdist"):
        command += ["-n0"]
    return [*command, *_forwarded(config)]


def repeating_command(config: pytest.Config, node_id: str) -> str:
    """Return the command line that compares one benchmark with its baseline again."""
    path, colons, name = node_id.partition("::")
    here = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    command = ["pytest", f"{here}{colons}{name}", "--benchmark-compare", *_forwarded(config)]
    return shlex.join(command)


def _forwarded(config: pytest.Config) -> Iterator[str]:
    """Yield the flags of this run that a session needs too, with their values."""
    is_run_only = False
    for argument in map(str, config.invocation_params.args):
        if argument.startswith("-"):
            is_run_only = argument.startswith(_RUN_ONLY)
        if not is_run_only and argument not in config.args:
            yield argument


def coverage(config: pytest.Config) -> Callable[[str], bool]:
    """Return whether a node id lies in the folders, files, classes and tests of this run."""

    def parts(folder: Path, node_id: str) -> tuple[Path, str]:
        # pytest resolves links neither in the root nor in its arguments.
        path, _, name = node_id.partition("::")
        return (folder / path).resolve(), name

    given = [parts(config.invocation_params.dir, argument) for argument in config.args]

    def covers(node_id: str) -> bool:
        path, name = parts(config.rootpath, node_id)
        return any(
            path.is_relative_to(within)
            and (not chosen or name == chosen or name.startswith((f"{chosen}::", f"{chosen}[")))
            for within, chosen in given
        )

    return covers


def subject_key(request: pytest.FixtureRequest) -> tuple[object, ...]:
    """Return a key that identifies a loader, step and loop, without making them.

    Tests share a measurement when they see the same definitions of the subject's fixtures, and of
    all fixtures that those request, with the same parameters.
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


def report_missing_test(collected: pytest.Session) -> None:
    """In a session's process, report a missing test: another version may not have it."""
    request = SessionRequest.from_environment()
    if request is not None and not collected.items and not collected.testsfailed:
        write_result(request, error_document("missing", "there is no such test"))


def serve_node(request: pytest.FixtureRequest, kind: str) -> None:
    """Measure or lint with the fixtures of this node, and end the test."""
    factories = Factories(*map(request.getfixturevalue, SUBJECT_FIXTURES))
    if kind == "lint":
        from netpipe.linting.job import lint_loader

        lint = LintRequest.from_environment()
        assert lint is not None
        run_job(lint, lambda _: {"lint": lint_loader(lint, factories.loader)})
    else:
        measure = MeasureRequest.from_environment()
        assert measure is not None
        serve(measure, factories)
    pytest.skip("this process measured for another one")
