"""`netpipe init`: write performance tests for a pipeline, found without importing it."""

import ast
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import ceil, isfinite
from pathlib import Path
from shutil import rmtree
from typing import Final

import click

from netpipe.cli.console import FAILED, PathType, output, run_child, target_type
from netpipe.cli.init_candidates import find_candidates, find_obstacle, sort_functions
from netpipe.cli.progress_display import show_progress
from netpipe.errors import MisuseError, NetpipeError
from netpipe.files.whole_file import refuse_unwritable, write_whole
from netpipe.git import GitError, git
from netpipe.jobs.targets import Target, name_targets
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.units import format_seconds
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind

FILES: Final = (
    "perf/conftest.py", "perf/test_pipeline.py", ".github/workflows/performance.yml"
)  # fmt: skip
_AGENT_FILE: Final = "AGENTS.md"

ROLES: Final = {"batches": "loader", "state_and_step": "step", "loop": "loop"}
"""The roles of the names in perf/conftest.py."""

_EXAMPLE_MS: Final = 30
_MIN_BUDGET_S: Final = 5
_BUDGET_STEPS: Final = 20
_DEFAULT_BUDGET_S: Final = 20
# With this ratio the first measurement ends early, and a slower machine still keeps up.
_STEP_OVER_LOAD: Final = 3.0
_MIN_STEP_OVER_LOAD: Final = 2.5
_MAX_TRIALS: Final = 4
_SHOWN: Final = 8
_ABSENT: Final = {
    "state_and_step": "a clock takes its place, until a fixture netpipe_step returns a function "
    "that returns (state, step)",
    "loop": "a float(loss) in yours is not seen, until a fixture netpipe_loop returns it, a "
    "function of batches, state and step",
}


def _choose(folder: Path) -> Target:
    """Return the only candidate for a loader that no other one uses, or else ask the user."""
    found = find_candidates(folder)
    usable = [each for each in found if not each.obstacle]
    parts = {name for each in usable for name in each.uses - {each.name}}
    whole = [each.target for each in usable if each.name not in parts]
    if len(whole) == 1:
        return Target.parse(whole[0])
    listed = "; ".join(f"{each.target} {each.obstacle}".strip() for each in found) or "none"
    if sys.stdin.isatty():
        question = f"Which function makes the pipeline? Found {listed}"
        default = next(iter(whole), None)
        return Target.parse(str(click.prompt(question, type=target_type, default=default)))
    others = [name for role in sort_functions(folder).values() for name in role]
    others = [name for name in others if name not in {each.target for each in found}]
    listed += f"; no loader by their code: {', '.join(others[:_SHOWN])}" if others else ""
    problem = f"{folder}: one function without arguments must make the pipeline; found {listed}"
    raise MisuseError(f"{problem}. Name it: --loader path/to/file.py:name")


def _choose_others(folder: Path, named: dict[str, Target | None]) -> dict[str, Target]:
    """Return the step and the loop by role: the named one, or else the only one found."""
    found, chosen = sort_functions(folder), dict[str, Target]()
    for name, target in named.items():
        if target:
            chosen[name] = target
        # A loop uses the results of its step, so it needs one.
        elif len(found[name]) == 1 and (chosen or name != "loop"):
            chosen[name] = Target.parse(found[name][0])
    return chosen


def _locate(folder: Path, target: Target, role: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the module, name and import folders of a target; raise a MisuseError if unusable."""
    where, name = target.where, target.name
    if target.arguments:
        raise MisuseError(f"{target} must have no arguments; write a function that passes them")
    if not where.endswith(".py"):
        stem = where.partition(".")[0]
        names = (stem, f"{stem}.py")
        places = (at for at in (".", "src") if any((folder / at / n).exists() for n in names))
        return where, name, tuple(places)
    path = (folder / where).resolve()
    if not path.is_file():
        raise MisuseError(f"{folder / where}: file must exist; found none")
    with suppress(SyntaxError, ValueError):  # The later import gives a better message.
        for node in ast.parse(path.read_bytes()).body:
            match node:
                case ast.FunctionDef(name=found) if found == name and role != "loop":
                    if why := find_obstacle(node):
                        raise MisuseError(f"{target} {why}")
    if not path.stem.isidentifier():
        raise MisuseError(f"{where}: must be a name that Python can import; rename the file")
    root = path.parent
    while root.name.isidentifier() and (root / "__init__.py").exists():
        root = root.parent
    module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    return module, name, (os.path.relpath(root, folder.resolve()), ".")


def _find_step(folder: Path, roles: Iterable[str]) -> tuple[int, str]:
    """Measure the loader; return a step time in ms that it keeps up with, and its origin."""
    from netpipe.jobs.parent import CHILD_COMMAND, ProcessEnvironment, run_measurement

    targets = name_targets(**{ROLES[role]: f"perf/conftest.py:{role}" for role in roles})
    step_ms, place = _EXAMPLE_MS, ProcessEnvironment(folder)
    for _ in range(_MAX_TRIALS):
        accelerator = f"emulated:{step_ms}ms"
        request = MeasureRequest(
            targets=targets, budget_s=_budget_s(step_ms),
            accelerator=accelerator, stopping_rule="clear",
        )  # fmt: skip
        with show_progress(f"measuring against {accelerator}") as progress:
            measured = run_measurement(CHILD_COMMAND, request, place, progress)
        load = measured.load_s_per_batch
        load_s, host = load.high if isfinite(load.high) else load.median, measured.host
        if _MIN_STEP_OVER_LOAD * load_s > step_ms / 1e3:
            step_ms = 10 * ceil(100 * _STEP_OVER_LOAD * load_s)
        elif judge(measured).kind == VerdictKind.JITTER:
            step_ms *= 2
        else:
            break
    took = f"{format_seconds(load.median)} on {host.cores} cores of {host.cpu}"
    return step_ms, f"netpipe init measured a batch in {took}"


def _budget_s(step_ms: int) -> int:
    """Return the budget for rounds of steps of this length, in seconds."""
    return max(_MIN_BUDGET_S, ceil(_BUDGET_STEPS * step_ms / 1e3))


@click.command(epilog="\b\nExample:\n  netpipe init")
@click.argument("folder", type=PathType(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--loader", type=target_type, help="Makes the pipeline (default: the one in FOLDER).")
@click.option("--step", type=target_type, help="Makes (state, step) (default: the one in FOLDER).")
@click.option("--loop", type=target_type, help="The loop (default: the one in FOLDER).")
@click.option("--agent", is_flag=True, help="Also write AGENTS.md, a page for coding agents.")
@click.option("--no-run", is_flag=True, help="Write the files without running them.")
def init(
    folder: Path,
    loader: Target | None,
    step: Target | None,
    loop: Target | None,
    agent: bool,
    no_run: bool,
) -> None:
    """Write performance tests for the pipeline of the repository in FOLDER, and run them once."""
    files = (*FILES, _AGENT_FILE) if agent else FILES
    for name in files:
        if (folder / name).exists():
            raise MisuseError(f"{folder / name}: must not exist yet; found a file, which is kept")
    chosen = {"batches": loader or _choose(folder)}
    others = _choose_others(folder, {"state_and_step": step, "loop": loop})
    try:
        code = _write_tests(folder, files, chosen | others, no_run=no_run)
    except NetpipeError as error:
        named = {name: target for name, target in others.items() if target in (step, loop)}
        if named == others:
            raise
        guessed = ", ".join(str(others[name]) for name in others if name not in named)
        code = _write_tests(folder, files, chosen | named, no_run=no_run)
        output.print(f"not used, because measuring with it failed: {guessed}: {error}")
    sys.exit(FAILED if code else 0)


def _write_tests(
    folder: Path, files: Sequence[str], chosen: dict[str, Target], *, no_run: bool
) -> int:
    """Write the tests of the chosen functions, and run them; return pytest's exit code."""
    from jinja2 import Environment, PackageLoader

    from netpipe.device import detection

    targets = {name: _locate(folder, target, name) for name, target in chosen.items()}
    has_step = "state_and_step" in chosen
    on_device = has_step and (no_run or not detection.find_device().shares_host_cores)
    tops = {folder / Path(name).parts[0] for name in files}
    created = [top for top in tops if not top.exists()]
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        refuse_unwritable(folder / name, "FOLDER")
    places = sorted({place for _, _, places in targets.values() for place in places}, reverse=True)
    python = "{}.{}".format(*sys.version_info)
    templates = Environment(
        loader=PackageLoader("netpipe.cli"), trim_blocks=True, keep_trailing_newline=True
    )
    step_ms, origin = _EXAMPLE_MS, "An example"
    for name in files:
        if name == FILES[1] and not no_run:
            try:
                step_ms, origin = _find_step(folder, targets)
            except BaseException:
                (folder / FILES[0]).unlink()  # so that `netpipe init` can be repeated
                for top in created:
                    rmtree(top, ignore_errors=True)
                raise
        budget_s = _budget_s(step_ms)
        flag = f" --netpipe-budget={budget_s}" if budget_s > _DEFAULT_BUDGET_S else ""
        template = templates.get_template(f"{Path(name).name}.jinja")
        content = template.render(
            targets=targets, places=places, folder=folder, python=python, step_ms=step_ms,
            origin=origin, on_device=on_device, flag=flag,
        )  # fmt: skip
        write_whole(folder / name, content, "FOLDER")
    # -P: the tests must find the pipeline as they do with plain `pytest`.
    command = [sys.executable, "-P", "-m", "pytest", "perf", "--benchmark-compare"]
    code = 0 if no_run else run_child([*command, f"--netpipe-budget={budget_s}"], folder, {})
    at = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    if code:
        advice = f"do what its message says, or change its limits in {FILES[1]}"
        output.print(f"a test failed: {advice}; a baseline holds the others", soft_wrap=True)
    for name, role in ROLES.items():
        found = chosen.get(name) or f"none found: {_ABSENT[name]}"
        output.print(f"{role}: {found}", soft_wrap=True)
    for advice in _list_advice(folder):
        output.print(advice, soft_wrap=True)
    output.print(f"commit: {at}git add {' '.join(files)}", soft_wrap=True)
    record = f"pytest perf --netpipe-record first{flag}"
    output.print(f"keep a baseline of this machine: {at}{record}", soft_wrap=True)
    output.print("in CI: set the repository variable NETPIPE to the pip requirement of netpipe")
    return code


def _list_advice(folder: Path) -> Iterator[str]:
    """Yield what else a repository needs for its tests and its workflow."""
    file = folder / "pyproject.toml"
    text = file.read_text("utf-8", "replace") if file.exists() else ""
    is_setuptools = "[project]" in text and ("[build-system]" not in text or "setuptools" in text)
    names_packages = any((folder / name).exists() for name in ("setup.py", "setup.cfg", "src"))
    if is_setuptools and not names_packages and not re.search("packages|py-modules", text):
        table = '[tool.setuptools.packages.find] with include = ["your_package*"]'
        yield f"{file}: setuptools cannot tell your package from perf and baselines: add {table}"
    with suppress(GitError, OSError, ValueError):  # FOLDER may lie outside a repository
        top = Path(git(folder, "rev-parse", "--show-toplevel"))
        if not top.samefile(folder):
            place = folder.resolve().relative_to(top.resolve())
            yield (
                f"GitHub runs only {top}/.github/workflows: move {FILES[2]} there, and add to its "
                f"job defaults: {{run: {{working-directory: {place}}}}}"
            )
