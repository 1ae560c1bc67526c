"""The public Python interface: the commands as functions, which also run in child processes.

`watch` runs in the training process itself.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict, TypeVar, Unpack

from netpipe.errors import MisuseError
from netpipe.jobs.request import REQUEST_VARIABLE

if TYPE_CHECKING:
    from netpipe.diagnosis.diagnosis import Diagnosis
    from netpipe.jobs import targets
    from netpipe.linting.linter import LintReport
    from netpipe.results.measurement import Measurement
    from netpipe.results.work_profile import WorkProfile
    from netpipe.watching.watcher import Watcher

Found = TypeVar("Found")
Target = str | Callable[..., Any]
"""A factory: a function at the top level of a file or module, or its name as for commands."""

_WAY_OUT: Final = "Define it at the top level of a file, or give 'path/to/file.py:name'"


class MeasureSettings(TypedDict, total=False):
    """Settings of `netpipe.measuring.measure_request.MeasureRequest`; times are in seconds."""

    budget_s: float
    batch_limit_s: float
    start_limit_s: float
    flops_per_step: float
    mfu: float
    trace: str


class LintSettings(TypedDict, total=False):
    """Settings of `netpipe.linting.lint_request.LintRequest`; times are in seconds."""

    intent: str
    proves: bool
    tries: bool
    budget_s: float
    start_limit_s: float


class WorkSettings(TypedDict, total=False):
    """Settings of `netpipe.work_counts.reproducible_counts.WorkRequest`; times are in seconds."""

    batches: int
    batch_limit_s: float
    start_limit_s: float


@dataclass(frozen=True)
class Result(Generic[Found]):
    """A result, which a notebook shows as the page that `--html` writes.

    Attributes:
        found: A `netpipe.results.measurement.Measurement`, a `netpipe.linting.linter.LintReport`,
            a `netpipe.diagnosis.diagnosis.Diagnosis`, or a
            `netpipe.results.work_profile.WorkProfile`.
        document: The document that the command prints with `--json`.
    """

    found: Found
    document: Mapping[str, Any]

    def _repr_html_(self) -> str:
        from netpipe.reporting.rendering import render_page

        # An iframe keeps the page's styles from affecting the notebook.
        page = escape(render_page([self.document]))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


def measure(
    loader: Target,
    step: Target | None = None,
    loop: Target | None = None,
    *,
    accelerator: str = "auto",
    **settings: Unpack[MeasureSettings],
) -> "Result[Measurement]":
    """Measure a loader with a step, and judge why training waits: `result.document["verdict"]`.

    Args:
        loader: Makes the loader.
        step: Makes `(state, step)`; optional with an emulated accelerator.
        loop: A training loop, `loop(batches, state, step)`.
        accelerator: "auto", or an emulated accelerator such as "emulated:36ms".
        settings: Further settings; the rounds take at most 20 seconds by default.

    Raises:
        MisuseError: A target or a setting is invalid, or this process holds the accelerator.
        SessionError: The loader or the step failed, or hung.
    """
    from netpipe.jobs.parent import CHILD_COMMAND, run_measurement
    from netpipe.measuring.measure_request import MeasureRequest
    from netpipe.verdict.decision import judge
    from netpipe.verdict.document import measurement_document

    targets = _name_targets(loader=loader, step=step, loop=loop)
    request = MeasureRequest(
        targets=targets, accelerator=accelerator, stopping_rule="clear", **settings
    )
    _refuse_held_accelerator(accelerator)
    measured = run_measurement(CHILD_COMMAND, request)
    return Result(measured, measurement_document(measured, judge(measured)))


def lint(loader: Target, **settings: Unpack[LintSettings]) -> "Result[LintReport]":
    """Report which calls of a Grain pipeline are in the wrong place.

    Missing settings come from pyproject.toml. The errors are the same as for `measure`.
    """
    from netpipe.jobs.parent import CHILD_COMMAND, run_session
    from netpipe.linting.linter import parse_report
    from netpipe.linting.settings import read_lint_settings

    request = replace(
        read_lint_settings(Path.cwd()), targets=_name_targets(loader=loader), **settings
    )
    document = run_session(CHILD_COMMAND, request)
    return Result(parse_report(document), document)


def diagnose(
    loader: Target,
    step: Target | None = None,
    loop: Target | None = None,
    *,
    accelerator: str = "auto",
    **settings: Unpack[MeasureSettings],
) -> "Result[Diagnosis]":
    """Find out which stage of a loader is slow, which resource limits it, and what would help.

    The arguments and errors are the same as for `measure`. With neither a step nor an emulated
    accelerator, the loader is diagnosed alone.
    """
    from netpipe.diagnosis.diagnose import run_diagnosis
    from netpipe.linting.settings import read_lint_settings
    from netpipe.measuring.measure_request import MeasureRequest

    targets = _name_targets(loader=loader, step=step, loop=loop)
    request = MeasureRequest(targets=targets, accelerator=accelerator, **settings)
    _refuse_held_accelerator(accelerator)
    found = run_diagnosis(request, read_lint_settings(Path.cwd()))
    return Result(found, found.to_document())


def work(
    loader: Target, step: Target | None = None, **settings: Unpack[WorkSettings]
) -> "Result[WorkProfile]":
    """Count the work that a loader and a step do for a batch: calls, allocations, bytes.

    The errors are the same as for `measure`.
    """
    from netpipe.jobs.parent import CHILD_COMMAND
    from netpipe.work_counts.reproducible_counts import WorkRequest, count_work

    if step is not None:
        _refuse_held_accelerator("auto")
    request = WorkRequest(targets=_name_targets(loader=loader, step=step), **settings)
    profile = count_work(CHILD_COMMAND, request)
    return Result(profile, profile.to_document())


def watch(
    batches: Iterable[Any], log: Path | str | None = None, *, window_s: float = 10.0,
    flops_per_step: float | None = None,
) -> "Watcher":  # fmt: skip
    """Return the batches of a training run, watched: how long it waits for them, and why.

    Iterate over the result in place of `batches`; its `on_step_end(aux)`, called after each step,
    tells waits that the device hides from those in which it is idle. Nothing waits for the device,
    and no failure of the watcher reaches the training.

    Args:
        batches: An iterator or an iterable of batches; attributes such as `get_state` are kept.
        log: A file for a JSON line (`netpipe.training/1`) for each window; None for none.
        window_s: Seconds of a window.
        flops_per_step: FLOPs of a step on all its devices together, for the MFU.
    """
    from netpipe.watching.watcher import Watcher

    return Watcher(batches, log, window_s=window_s, flops_per_step=flops_per_step)


def _name_targets(**factories: Target | None) -> "dict[str, targets.Target]":
    """Return the targets of a request, by role; errors as in `_name`."""
    from netpipe.jobs.targets import name_targets

    given = {role: made for role, made in factories.items() if made or role == "loader"}
    return name_targets(**{role: _name(made) for role, made in given.items()})


def _name(target: Target | None) -> str:
    """Return the name by which a child process finds a factory.

    Raises:
        MisuseError: The child could not find the factory, or a session is importing the file.
    """
    if os.environ.get(REQUEST_VARIABLE):
        raise MisuseError(
            "a session that measures imports this file again: put the call to netpipe under "
            '`if __name__ == "__main__":`'
        )
    if isinstance(target, str):
        return target
    name, module = getattr(target, "__qualname__", ""), getattr(target, "__module__", "")
    shown_name = name or type(target).__name__
    holder = sys.modules.get(module)
    if not name or "." in name or getattr(holder, name, None) is not target:
        raise MisuseError(
            f"{shown_name}: a child process must be able to import the factory; found a method, a "
            f"closure, a lambda or an object. {_WAY_OUT}"
        )
    file = getattr(holder, "__file__", None)
    if module == "__main__" and not (file and file.endswith(".py")):
        raise MisuseError(
            f"{shown_name}: a child process must be able to import the factory; found one that was "
            f"typed into a notebook or an interpreter. {_WAY_OUT}; %%writefile turns a cell "
            "into a file"
        )
    spec = getattr(holder, "__spec__", None)  # names the `__main__` of `python -m`
    where = spec.name if spec else module
    return f"{file if where in ('__main__', Path(file or '').stem) else where}:{name}"


def _refuse_held_accelerator(accelerator: str) -> None:
    jax: Any = sys.modules.get("jax")
    if jax is None or accelerator.startswith("emulated"):
        return
    # Asking jax for its devices would open them.
    if not jax._src.xla_bridge.backends_are_initialized():  # noqa: SLF001
        return
    from jax.extend.backend import backends

    held = [name for name in backends() if name != "cpu"]
    if held:
        raise MisuseError(
            f"this process holds the {held[0]}, which the process that measures needs: call "
            "netpipe before anything runs on the device, start this process with "
            "JAX_PLATFORMS=cpu, or give an emulated accelerator"
        )
