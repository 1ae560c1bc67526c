"""`netpipe init` in repositories of several layouts."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netpipe.cli.console import output
from netpipe.cli.init import FILES
from netpipe.cli.init_candidates import find_candidates
from netpipe.errors import SessionError
from netpipe.jobs.parent import ProcessEnvironment
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Device, Measurement
from tests.command import Netpipe
from tests.measurements import CPU, EMULATED, GPU, make_measurement
from tests.repository import init
from tests.root_process import ROOT

PIPELINE = """
import grain

def make_dataset(split, *, size, seed=0):
    source = grain.MapDataset.range(64)
    return source.batch(size).to_iter_dataset()
"""
FACTORY = """
from .read import make_dataset

def batches(size=4):
    dataset = make_dataset("train", size=size)
    return dataset

def main():
    for batch in batches():
        print(batch)
"""
SCRIPT = """
import torch.utils.data
loader = torch.utils.data.DataLoader([1, 2])
for batch in loader:
    print(batch)
"""


def write(root: Path, files: dict[str, str]) -> None:
    """Write the files of a repository."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def src_layout(tmp_path: Path) -> Path:
    """Return a repository with a package in `src`, one module of which uses the other."""
    files = {"__init__.py": "", "read.py": PIPELINE, "input.py": FACTORY}
    write(tmp_path, {f"src/shop/{name}": text for name, text in files.items()})
    write(tmp_path, {"pyproject.toml": "[project]\nname = 'shop'\n"})
    return tmp_path


class Sessions:
    """Stands in for sessions that measure, and for pytest.

    Attributes:
        found: What the sessions find, one after the other; the last one again and again.
        requests: What they were asked for.
        calls: The commands of pytest, with their folders.
        device: What jax finds.
    """

    def __init__(self) -> None:
        self.found: list[Measurement | Exception] = [make_measurement(device=EMULATED)]
        self.requests: list[MeasureRequest] = []
        self.calls: list[tuple[list[str], Path]] = []
        self.exit_code = 0
        self.device = CPU

    def measure(
        self, _: object, request: MeasureRequest, place: ProcessEnvironment, __: object
    ) -> Measurement:
        """Note the request, and return the next measurement."""
        assert place.folder
        assert (place.folder / "perf/conftest.py").exists()
        self.requests.append(request)
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found

    def run_child(self, words: list[str], folder: Path, _: object) -> int:
        """Note the command of pytest, and return its exit code."""
        self.calls.append((words[1:], folder))
        return self.exit_code


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Replace the sessions and pytest."""
    made = Sessions()
    monkeypatch.setattr("netpipe.jobs.parent.run_measurement", made.measure)
    monkeypatch.setattr(sys.modules["netpipe.cli.init"], "run_child", made.run_child)
    monkeypatch.setattr("netpipe.device.detection.find_device", lambda: made.device)
    return made


def targets(root: Path) -> list[str]:
    """Return the targets of all candidates."""
    return [candidate.target for candidate in find_candidates(root)]


def test_the_pipeline_is_found_through_functions(
    src_layout: Path, netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function that calls the maker of the data set is the loader; nothing is imported."""
    monkeypatch.setattr(output, "_width", 40)
    result = netpipe("init", src_layout, "--no-run")
    assert result.exit_code == 0, result.stderr
    conftest = (src_layout / "perf/conftest.py").read_text()
    assert "from shop.input import batches  #" in conftest
    assert '["src", "."]' in conftest
    assert "netpipe_step" not in conftest
    for name in FILES[:2]:
        ast.parse((src_layout / name).read_text())
    test = (src_layout / FILES[1]).read_text()
    assert "# An example" in test
    assert 'ACCELERATOR = "emulated:30ms"\n\n# Without a step' in test
    assert "accelerator=ACCELERATOR)\n\n\ndef" in test
    workflow = (src_layout / FILES[2]).read_text()
    command = next(line for line in workflow.splitlines() if "run: pip" in line).partition(": ")[2]
    assert command.endswith('}" -e .')
    told = subprocess.run(["bash", "-c", command], env={}, capture_output=True, text=True)
    assert "NETPIPE: set this variable of the repository" in told.stderr
    assert f"git add {' '.join(FILES)}" in result.stdout
    assert "shop.input" not in sys.modules


def test_coding_agents_get_a_page(src_layout: Path, netpipe: Netpipe) -> None:
    """It is the page of the documentation, and an existing one is kept."""
    result = netpipe("init", src_layout, "--no-run", "--agent")
    assert (src_layout / "AGENTS.md").read_text() == (ROOT / "docs/agents.md").read_text()
    assert f"git add {' '.join(FILES)} AGENTS.md" in result.stdout
    for name in FILES:
        (src_layout / name).unlink()
    result = netpipe("init", src_layout, "--no-run", "--agent")
    assert result.exit_code == 2
    assert "AGENTS.md: must not exist yet" in result.stderr
    assert not (src_layout / FILES[0]).exists()


@pytest.mark.parametrize("step", ["model.py:start", "model:start"])
def test_a_flat_repository_with_a_step(tmp_path: Path, netpipe: Netpipe, step: str) -> None:
    """Sibling files are imported from their folder, and the step is measured."""
    write(
        tmp_path, {"pipeline.py": PIPELINE, "model.py": "def start(): ...", "requirements.txt": ""}
    )
    write(
        tmp_path, {"feed.py": "import pipeline\ndef go():\n    return pipeline.make_dataset(1)\n"}
    )
    result = netpipe("init", tmp_path, "--step", step, "--no-run")
    assert result.exit_code == 0, result.stderr
    conftest = (tmp_path / "perf/conftest.py").read_text()
    assert "from feed import go as batches  #" in conftest
    assert "from model import start as state_and_step  #" in conftest
    assert '["."]' in conftest
    assert "pytestmark" not in (tmp_path / FILES[1]).read_text()
    assert '}"  -r requirements.txt\n' in (tmp_path / FILES[2]).read_text()


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"train.py": SCRIPT}, "train.py:loader is made on import: move it into a function"),
        ({"read.py": PIPELINE}, "read.py:make_dataset needs split, size: write a function"),
        ({"empty.py": "3"}, "found none. Name it: --loader"),
        ({n: FACTORY.replace(".read", n) for n in ("a.py", "b.py")} | {"c.py": PIPELINE},
         "a.py:batches; b.py:batches"),
    ],
)  # fmt: skip
def test_without_one_clear_loader_all_candidates_are_listed(
    tmp_path: Path, netpipe: Netpipe, files: dict[str, str], named: str
) -> None:
    """Without a terminal, the error lists each candidate with its obstacle; nothing is written."""
    write(tmp_path, files)
    result = netpipe("init", tmp_path)
    assert result.exit_code == 2
    assert named in result.stderr
    assert not (tmp_path / "perf").exists()


def test_on_a_terminal_the_user_is_asked(
    tmp_path: Path, netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first candidate is the default answer."""
    write(tmp_path, {n: FACTORY.replace(".read", n) for n in ("a.py", "b.py")} | {"c.py": PIPELINE})
    asked = []

    def answer(_: str, **options: object) -> str:
        asked.append(options["default"])
        return "b.py:batches"

    monkeypatch.setattr("click.prompt", answer)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = netpipe("init", tmp_path, "--no-run")
    assert result.exit_code == 0, result.stderr
    assert asked == ["a.py:batches"]
    assert "from b import batches" in (tmp_path / "perf/conftest.py").read_text()


@pytest.mark.parametrize(
    ("loader", "named"),
    [
        ("src/shop/read.py:make_dataset", "needs split, size"),
        ("src/shop/none.py:batches", "file must exist; found none"),
        ("batches", "a target must be package.module:name"),
        ("src/shop/my-input.py:batches", "must be a name that Python can import"),
        ("shop.input:batches 8", "must have no arguments"),
    ],
)
def test_a_named_loader_must_be_usable(
    src_layout: Path, netpipe: Netpipe, loader: str, named: str
) -> None:
    """A missing file, an unimportable name and required arguments are refused at once."""
    write(src_layout, {"src/shop/my-input.py": "def batches(): ..."})
    result = netpipe("init", src_layout, "--loader", loader)
    assert result.exit_code == 2
    assert named in result.stderr
    assert not (src_layout / "perf").exists()


def test_a_damaged_file_is_left_to_pytest(tmp_path: Path, netpipe: Netpipe) -> None:
    """The tests report a syntax error when they import the file; a missing folder is refused."""
    write(tmp_path, {"bad.py": "def ("})
    assert netpipe("init", tmp_path, "--loader", "bad.py:x", "--no-run").exit_code == 0
    result = netpipe("init", tmp_path / "none", "--loader", "good:x")
    assert (result.exit_code, (tmp_path / "none").exists()) == (2, False)


@pytest.mark.parametrize("name", FILES)
def test_an_existing_file_is_kept(src_layout: Path, netpipe: Netpipe, name: str) -> None:
    """The error names it, and no other file is written."""
    write(src_layout, {name: "mine"})
    result = netpipe("init", src_layout)
    assert result.exit_code == 2
    assert name in result.stderr
    assert (src_layout / name).read_text() == "mine"
    assert sum((src_layout / each).exists() for each in FILES) == 1


ITERABLE = """
class Frames:
    def __iter__(self):
        yield 1
"""
MAKE = "def make_loader():\n    return {}\n"
WORDS = """
def words(n=3):
    while True:
        yield "word"

@contextmanager
def opened():
    yield 3

def batches():
    for word in words():
        yield [word]
"""


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"data.py": ITERABLE + MAKE.format("Frames()")}, "data.py:make_loader"),
        ({"data.py": ITERABLE, "a.py": MAKE.format("data.Frames()")}, "a.py:make_loader"),
        ({"data.py": MAKE.format("jl.JaxonDataLoader(x, 128)")}, "data.py:make_loader"),
        ({"data.py": MAKE.format("StreamingDataset(remote)")}, "data.py:make_loader"),
        ({"feed.py": WORDS}, "feed.py:batches"),
        ({"feed.py": WORDS, "own.py": PIPELINE.replace("split, *, size, seed=0", "")},
         "own.py:make_dataset"),
    ],
    ids=["iterable", "other file", "by its name", "dataset", "generator", "Grain first"],
)  # fmt: skip
def test_loaders_of_any_kind_are_found(
    tmp_path: Path, netpipe: Netpipe, files: dict[str, str], found: str
) -> None:
    """Iterable classes, classes named like a loader and generators count if nothing is Grain's."""
    write(tmp_path, files)
    result = netpipe("init", tmp_path, "--no-run")
    assert result.exit_code == 0, result.stderr
    assert f"loader: {found}" in result.stdout.splitlines()


def test_rejected_functions_are_listed(tmp_path: Path, netpipe: Netpipe) -> None:
    """Functions that could be called as a loader are named if none seems to be one."""
    text = "def main(): ...\ndef load(path): ...\ndef rows():\n    return list(map(int, 'ab'))\n"
    more = "".join(f"def f{n}(): ...\n" for n in range(8))
    write(tmp_path, {"a.py": text, "b.py": more})
    result = netpipe("init", tmp_path)
    assert "found none; no loader by their code: a.py:main, a.py:rows, b.py:f0" in result.stderr
    assert "b.py:f5. Name it" in result.stderr
    assert "load," not in result.stderr


TRAIN = """
def start():
    return init(), jax.jit(train_step)

def train(batches, state, step, every=10):
    for batch in batches:
        state, aux = step(state, batch)
"""


@pytest.mark.parametrize(("device", "emulated"), [(CPU, True), (GPU, False)], ids=["cpu", "gpu"])
def test_the_step_and_the_loop_are_found(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions, device: Device, emulated: bool
) -> None:
    """They are measured too; where jax finds no accelerator, a clock takes the step's time."""
    write(src_layout, {"src/shop/train.py": TRAIN})
    sessions.device = device
    result = netpipe("init", src_layout)
    conftest = (src_layout / "perf/conftest.py").read_text()
    assert "from shop.train import start as state_and_step" in conftest
    assert "from shop.train import train as loop" in conftest
    assert "    return state_and_step\n\n\n@pytest.fixture\ndef netpipe_loop():" in conftest
    assert list(sessions.requests[0].targets) == ["loader", "step", "loop"]
    assert ("pytestmark" in (src_layout / FILES[1]).read_text()) is emulated
    assert "step: src/shop/train.py:start" in result.stdout
    assert "loop: src/shop/train.py:train" in result.stdout


@pytest.mark.parametrize(
    ("text", "absent"),
    [(TRAIN.partition("def train")[0], "loop"), (TRAIN.replace("_step)", ")"), "step"),
     ("", "step"), (TRAIN + TRAIN.replace("start", "begin"), "step")],
    ids=["no loop", "no step", "neither", "two steps"],
)  # fmt: skip
def test_an_absent_step_or_loop_is_named(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions, text: str, absent: str
) -> None:
    """The output says what is not measured without it, and which fixture adds it."""
    write(src_layout, {"src/shop/train.py": text})
    result = netpipe("init", src_layout)
    assert f"{absent}: none found: " in result.stdout
    assert f"until a fixture netpipe_{absent} returns" in result.stdout
    assert "netpipe_loop" not in (src_layout / "perf/conftest.py").read_text()
    assert list(sessions.requests[0].targets) == ["loader", "step"][: 1 + (absent == "loop")]


def test_functions_that_only_look_alike_are_not_run(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions
) -> None:
    """A function that saves is not taken for a loop, nor a number of steps for a step."""
    text = """
def init():
    return params, num_steps

def save_checkpoint(folder, state, step):
    write(folder, state, step)
"""
    write(src_layout, {"src/shop/train.py": text})
    result = netpipe("init", src_layout)
    assert "loop: none found" in result.stdout
    assert "step: none found" in result.stdout
    assert list(sessions.requests[0].targets) == ["loader"]


def test_a_failure_is_told_once_and_leaves_nothing(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions
) -> None:
    """A loader that cannot be imported fails without the guessed step too."""
    write(src_layout, {"src/shop/train.py": TRAIN})
    sessions.found = [SessionError("No module named 'optax'") for _ in range(2)]
    result = netpipe("init", src_layout)
    assert result.exit_code == 2
    assert result.output.count("No module named 'optax'") == 1
    assert not (src_layout / "perf").exists()
    assert not (src_layout / ".github").exists()


def test_a_step_that_was_found_but_fails_is_not_used(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions
) -> None:
    """The loader is then measured alone; a step that the user named remains an error."""
    write(src_layout, {"src/shop/train.py": TRAIN})
    failure = SessionError("the step failed: TypeError: no params")
    sessions.found = [failure, make_measurement(device=EMULATED)]
    result = netpipe("init", src_layout)
    assert result.exit_code == 0
    assert "not used, because measuring with it failed: src/shop/train.py:start" in result.stdout
    assert "no params" in result.stdout
    assert [list(each.targets) for each in sessions.requests][1:] == [["loader"]]
    assert "netpipe_step" not in (src_layout / "perf/conftest.py").read_text()
    for name in FILES:
        (src_layout / name).unlink()
    sessions.found = [failure]
    step, loop = "src/shop/train.py:start", "src/shop/train.py:train"
    assert netpipe("init", src_layout, "--step", step, "--loop", loop).exit_code == 2


def test_what_is_not_the_projects_own_code_is_no_candidate(tmp_path: Path) -> None:
    """Environments, hidden folders, builds and tests are skipped, and so are damaged files."""
    places = (".tox/a", "env/lib/site-packages/a", "build/a", "tests/a", "b/test_a", "b/conftest")
    write(tmp_path, {f"{place}.py": PIPELINE for place in places})
    write(tmp_path, {"bad.py": "def (", "zero.py": "\0", "own.py": PIPELINE})
    assert targets(tmp_path) == ["own.py:make_dataset"]


def test_generators_are_loaders_and_users_of_batches_are_not(tmp_path: Path) -> None:
    """A function that yields from a pipeline makes batches; one that trains does not."""
    text = "def feed():\n    for b in batches():\n        yield b\n"
    text += "def train():\n    for b in feed():\n        n = b\n    return n\n"
    write(tmp_path, {"read.py": PIPELINE, "feed.py": FACTORY + text})
    assert targets(tmp_path)[:2] == ["feed.py:batches", "feed.py:feed"]
    assert "feed.py:train" not in targets(tmp_path)


def test_a_function_that_uses_up_batches_is_no_loader(tmp_path: Path) -> None:
    """Neither one that makes a model for the first batch, nor one that counts batches."""
    text = "def start():\n    batch = next(iter(batches()))\n    return init(batch), step\n"
    text += "def size():\n    return len(batches())\n"
    write(tmp_path, {"read.py": PIPELINE, "feed.py": FACTORY + text})
    assert targets(tmp_path) == ["feed.py:batches", "read.py:make_dataset"]


def test_a_repository_is_told_what_else_it_needs(tmp_path: Path, netpipe: Netpipe) -> None:
    """A package next to perf must be named, and GitHub does not see a folder's workflows."""
    init(tmp_path)
    folder = tmp_path / "training"
    project = '[project]\nname = "shop"\n'
    write(folder, {"shop/__init__.py": "", "shop/read.py": PIPELINE, "shop/feed.py": FACTORY})
    write(folder, {"pyproject.toml": project})
    told = " ".join(netpipe("init", folder, "--no-run").stdout.split())
    assert (
        "setuptools cannot tell your package from perf and baselines: add [tool.setuptools" in told
    )
    assert f"{tmp_path}/.github/workflows" in told
    assert "working-directory: training" in told


def test_a_data_set_is_followed_through_names(tmp_path: Path) -> None:
    """Annotated names and names of inner blocks are followed to the returned value."""
    text = "def a(eager=True):\n    if eager:\n        made: object = grain.MapDataset.range(4)\n"
    text += "    other = made.batch(2)\n    return other\n"
    write(tmp_path, {"input.py": text})
    assert targets(tmp_path) == ["input.py:a"]


@pytest.mark.parametrize("code", [0, 4])
def test_the_suite_is_run_as_pytest_runs_it(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions, code: int
) -> None:
    """The tests run once in the repository's folder, and set the exit code."""
    sessions.exit_code = code
    result = netpipe("init", src_layout)
    assert result.exit_code == bool(code)
    words = ["-P", "-m", "pytest", "perf", "--benchmark-compare", "--netpipe-budget=5"]
    assert sessions.calls == [(words, src_layout)]
    assert "git add" in result.stdout
    assert ("change its limits in perf/test_pipeline.py" in result.stdout) is bool(code)


@pytest.mark.parametrize(
    ("found", "tried_ms"),
    [
        ([{"load_s": 0.012}], [30]),
        ([{"load_s": 0.0803, "train_s": 0.0803}, {"load_s": 0.0803, "step_s": 0.25}], [30, 250]),
        ([{"load_s": 0.0401}, {"load_s": 0.055, "step_s": 0.130}], [30, 130, 170]),
        ([{"load_s": 2.0, "rounds": 1}], [30, 6000]),
        ([{"train_s": 0.036, "worst_tenth_fraction": 0.9}, {}], [30, 60]),
        ([{"train_s": 0.036, "worst_tenth_fraction": 0.9}], [30, 60, 120, 240, 480]),
        ([{"drained": False}], [30]),
    ],
    ids=["fast", "slow", "slower later", "very slow", "pauses", "always pauses", "inconclusive"],
)
def test_the_first_measurement_gives_the_step(
    src_layout: Path,
    netpipe: Netpipe,
    sessions: Sessions,
    found: list[dict[str, Any]],
    tried_ms: list[int],
) -> None:
    """The step takes at least 30 ms and three times a batch, and hides pauses where it can."""
    sessions.found = [make_measurement(device=EMULATED, **values) for values in found]
    result = netpipe("init", src_layout)
    assert result.exit_code == 0, result.stderr
    steps = [request.accelerator for request in sessions.requests]
    assert steps == [f"emulated:{step}ms" for step in tried_ms[:4]]
    budgets_s = [request.budget_s for request in sessions.requests]
    assert budgets_s == [120 if step == 6000 else 5 for step in tried_ms[:4]]
    assert (" first --netpipe-budget=120" in result.stdout) is (6000 in tried_ms)
    named = {str(target) for target in sessions.requests[0].targets.values()}
    assert named == {"perf/conftest.py:batches"}
    test = (src_layout / FILES[1]).read_text()
    assert f'ACCELERATOR = "emulated:{tried_ms[-1]}ms"' in test
    assert "# netpipe init measured a batch in" in test
    assert "2 cores of Intel Xeon" in test


def test_a_pipeline_that_cannot_be_measured_leaves_no_files(
    src_layout: Path, netpipe: Netpipe, sessions: Sessions
) -> None:
    """The error is printed, and init can be repeated once it is mended."""
    sessions.found = [SessionError("the loader failed: KeyError: 'image'")]
    result = netpipe("init", src_layout)
    assert (result.exit_code, sessions.calls) == (2, [])
    assert "KeyError: 'image'" in result.stderr
    assert not any((src_layout / name).exists() for name in FILES)
