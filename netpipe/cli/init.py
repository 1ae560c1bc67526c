"""`netpipe init`: write performance tests for a pipeline, found without importing it."""

import ast
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import ceil, isfinite, log10
from pathlib import Path
from typing import Final, NamedTuple

import click

from netpipe.cli.console import FAILED, PathType, output, run_child, target_type
from netpipe.cli.progress_display import show_progress
from netpipe.errors import MisuseError
from netpipe.files.whole_file import refuse_unwritable, write_whole
from netpipe.jobs.targets import Target, name_targets
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.units import format_seconds
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind

_MAKERS: Final = {"to_iter_dataset", "mp_prefetch", "MapDataset", "IterDataset", "DataLoader"}
_OTHER_CODE: Final = re.compile(
    r"\..*|build|dist|node_modules|perf|site-packages|tests?|test_.*|conftest\.py"
)
FILES: Final = (
    "perf/conftest.py", "perf/test_pipeline.py", ".github/workflows/performance.yml"
)  # fmt: skip

ROLES: Final = {"batches": "loader", "state_and_step": "step"}
"""The roles of the names in perf/conftest.py."""

_EXAMPLE_MS: Final = 30
_MIN_BUDGET_S: Final = 5
_BUDGET_STEPS: Final = 20
_DEFAULT_BUDGET_S: Final = 20
# Its first measurement then ends early, and a slower machine still keeps up.
_STEP_OVER_LOAD: Final = 3.0
_MIN_STEP_OVER_LOAD: Final = 2.5
_MAX_TRIALS: Final = 4


class Candidate(NamedTuple):
    """A top-level name that makes a pipeline, why it cannot be a loader, and the names it uses."""

    target: str
    name: str
    obstacle: str
    uses: set[str]


def find_candidates(folder: Path) -> list[Candidate]:
    """Return the names in a repository's Python files that make pipelines, by syntax alone."""
    trees, makers, names = dict(_parse_files(folder)), set[str](), set(_MAKERS)
    # A function that returns the result of a maker is a maker too.
    while not names <= makers:
        makers |= names
        found = [each for path in trees for each in _list_candidates(path, trees[path], makers)]
        names = {each.name for each in found}
    return found


def _parse_files(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if not any(map(_OTHER_CODE.fullmatch, place.parts)):
            with suppress(OSError, SyntaxError, ValueError):  # Python could not import it either.
                yield str(place), ast.parse(path.read_bytes())


def _list_candidates(path: str, tree: ast.Module, makers: set[str]) -> Iterator[Candidate]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) if _makes_pipeline(node, makers):
                yield Candidate(f"{path}:{name}", name, _find_obstacle(node), _list_names(node))
            case ast.Assign(targets=[ast.Name(name)], value=value) if makers & _list_names(value):
                obstacle = "is made on import: move it into a function that returns it"
                yield Candidate(f"{path}:{name}", name, obstacle, set())


def _list_names(node: ast.AST) -> set[str]:
    found = (getattr(inner, "id", getattr(inner, "attr", None)) for inner in ast.walk(node))
    return {name for name in found if name}


def _makes_pipeline(function: ast.FunctionDef, makers: set[str]) -> bool:
    """Return whether a function returns the results of these names, or yields and uses them."""
    made, results = set(makers), set[str]()
    # Twice: inner blocks come last, and outer ones may use their names.
    for node in [*ast.walk(function)] * 2:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.AST() as value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.AST() as value)
            ) if made & _list_names(value):
                made.add(name)
            case ast.Return(value=ast.AST() as value):
                results |= _list_names(value)
            case ast.Yield() | ast.YieldFrom():
                results |= _list_names(function)
    return bool(made & results)


def _find_obstacle(function: ast.FunctionDef) -> str:
    """Return why a function cannot be called without arguments; "" if it can."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [a for a, default in zip(given.kwonlyargs, given.kw_defaults) if not default]  # noqa: B905
    names = ", ".join(argument.arg for argument in needed)
    return names and f"needs {names}: write a function without arguments that calls it"


def _choose(folder: Path) -> Target:
    """Return the only candidate for a loader that is not part of another, or ask."""
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
    problem = f"{folder}: one function without arguments must make the pipeline; found {listed}"
    raise MisuseError(f"{problem}. Name it: --loader path/to/file.py:name")


def _locate(folder: Path, target: Target) -> tuple[str, str, tuple[str, ...]]:
    """Return the module, name and import folders of a target; raise a MisuseError if unusable."""
    where, name = target.where, target.name
    if not where.endswith(".py"):
        stem = where.partition(".")[0]
        names = (stem, f"{stem}.py")
        places = (at for at in (".", "src") if any((folder / at / n).exists() for n in names))
        return where, name, tuple(places)
    path = (folder / where).resolve()
    if not path.is_file():
        raise MisuseError(f"{folder / where}: file must exist; found none")
    with suppress(SyntaxError, ValueError):  # The import gives a better message.
        for node in ast.parse(path.read_bytes()).body:
            match node:
                case ast.FunctionDef(name=found) if found == name and (why := _find_obstacle(node)):
                    raise MisuseError(f"{target} {why}")
    if not path.stem.isidentifier():
        raise MisuseError(f"{where}: must be a name that Python can import; rename the file")
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    return module, name, (os.path.relpath(root, folder.resolve()), ".")


def _find_step(folder: Path, roles: Iterable[str]) -> tuple[int, str]:
    """Measure the loader; return the ms of a step that it keeps up with, and their origin."""
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
            step_ms = _round_up(1e3 * _STEP_OVER_LOAD * load_s)
        elif judge(measured).kind == VerdictKind.JITTER:
            step_ms *= 2
        else:
            break
    took = f"{format_seconds(load.median)} on {host.cores} cores of {host.cpu}"
    return step_ms, f"netpipe init measured a batch in {took}"


def _budget_s(step_ms: int) -> int:
    """Return the seconds that rounds of such steps need."""
    return max(_MIN_BUDGET_S, ceil(_BUDGET_STEPS * step_ms / 1e3))


def _round_up(value: float) -> int:
    """Return a whole number of two significant digits that is not below a value above 10."""
    unit = 10 ** (int(log10(value)) - 1)
    return ceil(value / unit) * unit


@click.command(epilog="\b\nExample:\n  netpipe init")
@click.argument("folder", type=PathType(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--loader", type=target_type, help="Makes the pipeline (default: the one in FOLDER).")
@click.option("--step", type=target_type, help="Makes (state, step).")
@click.option("--no-run", is_flag=True, help="Write the files without running them.")
def init(folder: Path, loader: Target | None, step: Target | None, no_run: bool) -> None:
    """Write performance tests for the pipeline of the repository in FOLDER, and run them once."""
    from jinja2 import Environment, PackageLoader

    for name in FILES:
        if (folder / name).exists():
            raise MisuseError(f"{folder / name}: must not exist yet; found a file, which is kept")
    targets = {"batches": _locate(folder, loader or _choose(folder))}
    if step:
        targets["state_and_step"] = _locate(folder, step)
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        refuse_unwritable(folder / name, "FOLDER")
    places = sorted({place for _, _, places in targets.values() for place in places}, reverse=True)
    python = "{}.{}".format(*sys.version_info)
    templates = Environment(
        loader=PackageLoader("netpipe.cli"), trim_blocks=True, keep_trailing_newline=True
    )
    step_ms, origin = _EXAMPLE_MS, "An example"
    for name in FILES:
        if name == FILES[1] and not no_run:
            try:
                step_ms, origin = _find_step(folder, targets)
            except BaseException:
                (folder / FILES[0]).unlink()  # so that `netpipe init` can be repeated
                raise
        template = templates.get_template(f"{Path(name).name}.jinja")
        content = template.render(
            targets=targets, places=places, folder=folder, python=python, step_ms=step_ms,
            origin=origin,
        )  # fmt: skip
        write_whole(folder / name, content, "FOLDER")
    # -P: the tests must find the pipeline as they do with plain `pytest`.
    command = [sys.executable, "-P", "-m", "pytest", "perf", "--benchmark-compare"]
    budget_s = _budget_s(step_ms)
    code = 0 if no_run else run_child([*command, f"--netpipe-budget={budget_s}"], folder, {})
    at = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    if code:
        advice = f"do what its message says, or change its limits in {FILES[1]}"
        output.print(f"a test failed: {advice}; a baseline holds the others", soft_wrap=True)
    output.print(f"commit: {at}git add {' '.join(FILES)}", soft_wrap=True)
    flag = f" --netpipe-budget={budget_s}" if budget_s > _DEFAULT_BUDGET_S else ""
    record = f"pytest perf --netpipe-record first{flag}"
    output.print(f"keep a baseline of this machine: {at}{record}", soft_wrap=True)
    output.print("in CI: set the repository variable NETPIPE to what pip installs netpipe from")
    sys.exit(FAILED if code else 0)
