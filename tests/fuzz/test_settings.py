"""Settings in TOML: waivers, the configuration of the pipeline, and the lint settings."""

import re
from math import isfinite
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe.errors import InputError
from netpipe.gate import waivers
from netpipe.jobs.code_origin import _project_name
from netpipe.judge.declared import read_declared
from netpipe.linting.lint_request import INTENTS
from netpipe.linting.settings import read_lint_settings
from netpipe.workload.config import load_config
from netpipe.worktrees import read_dependencies
from tests.fuzz.mutations import damaged, mutated_lines, read_or_refuse

WAIVERS = """\
[[waiver]]
benchmark = "perf_tests/test_a.py::test_load"
metric = "load_cpu_ratio"
bound = 1.2
reason = "a better tokenizer"
expires = 2026-12-31
device = "h200"
[[waiver]]
benchmark = "perf_tests/test_a.py::test_step"
metric = "step_s"
bound = 2
reason = "remat"
expires = 2026-12-31
"""
CONFIG = """\
[pipeline]
seed = 3
split = "train"
sequence_length = 512
batch_size = 16
packing = true
epochs = 2
workers = 2
worker_buffer_batches = 2
shard_index = 0
shard_count = 2
[step]
preset = "tiny"
learning_rate = 3e-4
seed = 1
"""
PYPROJECT = """\
[project]
name = "a"
dependencies = ["grain", "jax"]
[tool.netpipe.lint]
intent = "throughput"
[tool.netpipe.lint.silence]
no-workers = "one core"
"large-capture of a.b" = "small"
[tool.netpipe.judge.accept]
"data SAME_ELEMENTS" = "sorted"
"""


def contents(text: str) -> st.SearchStrategy[bytes]:
    """Mutations of a file, some with damaged bytes."""
    return st.one_of(mutated_lines(text).map(str.encode), damaged(text.encode()))


@given(content=contents(WAIVERS))
def test_waivers_are_refused_or_sane(tmp_path: Path, content: bytes) -> None:
    """Every waiver that is read has a finite bound above 1, and can be shown."""
    path = tmp_path / waivers.FILE
    path.write_bytes(content)
    for waiver in read_or_refuse(waivers.load, path) or ():
        assert waiver.bound > 1
        assert isfinite(waiver.bound)
        assert f"{waiver.bound:g} {waiver.name} {waiver.remark}"


@given(content=contents(CONFIG))
def test_a_configuration_is_refused_or_sane(tmp_path: Path, content: bytes) -> None:
    """Every number that is read is finite and fits into 64 bits."""
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    if config := read_or_refuse(load_config, path):
        settings = [*vars(config.pipeline).values(), *vars(config.step).values()]
        numbers = [value for value in settings if isinstance(value, int | float)]
        assert max(map(abs, numbers)) < 2**63 or config.step.learning_rate >= 2**63
        assert isfinite(config.step.learning_rate)
        assert config.pipeline.batch_size >= 1


@given(content=contents(PYPROJECT))
def test_lint_settings_are_refused_or_sane(tmp_path: Path, content: bytes) -> None:
    """An unreadable project file never gives a traceback."""
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content)
    request = read_or_refuse(lambda _: read_lint_settings(tmp_path), path)
    assert request is None or request.intent in INTENTS
    declared = read_or_refuse(lambda _: read_declared(tmp_path, tmp_path.parent), path)
    assert all(reason.strip() for reason in (declared or {}).values())
    assert isinstance(_project_name(path), str)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("bound = 1.2", f"bound = {'9' * 5000}"),
        ("bound = 1.2", f"bound = {'9' * 400}"),
        ("bound = 1.2", "bound = nan"),
        ("bound = 1.2", f"bound{'.x' * 2_000} = 1"),
        ("bound = 1.2", f"bound = {'[' * 5000}"),
        ("bound = 1.2", f"{'.'.join('x' * 2_000)} = 1"),
        ("bound = 1.2", f"bound = 1.2\n{'x' * 100_000} = 1"),
        ("[[waiver]]", f"#{' ' * (1 << 20)}\n[[waiver]]"),
        ("seed = 3", f"seed = {'9' * 20}"),
        ("batch_size = 16", f"batch_size = {'9' * 20}"),
        ("epochs = 2", "epochs = 99999999999"),
        ("learning_rate = 3e-4", "learning_rate = inf"),
        ("learning_rate = 3e-4", "learning_rate = nan"),
        ("learning_rate = 3e-4", f"learning_rate = {'9' * 400}"),
        ("learning_rate = 3e-4\nseed = 1", f"seed = {'9' * 20}"),
        ('preset = "tiny"', f'preset = "{"x" * 100_000}"'),
    ],
)
def test_odd_settings_are_refused(tmp_path: Path, line: str, found: str) -> None:
    """Excessive numbers, names, nesting and sizes give a short error."""
    text, read = (WAIVERS, waivers.load) if line in WAIVERS else (CONFIG, load_config)
    path = tmp_path / waivers.FILE
    path.write_text(text.replace(line, found, 1))
    assert line in text
    assert read_or_refuse(read, path) is None


@pytest.mark.parametrize("name", ["5", "[1]", "{}", "9" * 5000, "[" * 5000])
def test_an_odd_project_has_no_name(tmp_path: Path, name: str) -> None:
    """The origin of code is checked even if the project file is odd."""
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[project]\nname = {name}\n")
    assert not _project_name(path)


@pytest.mark.parametrize("before", ["\ufeff", f"#{'.' * 1000}\n"])
def test_an_odd_first_line_is_read(tmp_path: Path, before: str) -> None:
    """Windows editors write a byte order mark; comments may have hundreds of dots."""
    path = tmp_path / "config.toml"
    path.write_text(f"{before}{CONFIG}", encoding="utf-8")
    assert load_config(path).pipeline.batch_size == 16


@pytest.mark.parametrize("text", ["tool = 5", f"a = {'[' * 5000}"])
def test_dependencies_of_an_odd_project_are_its_text(tmp_path: Path, text: str) -> None:
    """A `tool` that is not a table and deep nesting give no traceback."""
    (tmp_path / "pyproject.toml").write_text(text)
    assert read_dependencies(tmp_path) == text


def test_a_long_error_stays_short(tmp_path: Path) -> None:
    """The error of a silence names it in a few words."""
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.netpipe.lint.silence]\n"no-workers of {"x" * 5000}" = 5\n'
    )
    with pytest.raises(InputError, match=re.escape("x...: ") + "|x\\.\\.\\. must be") as refused:
        read_lint_settings(tmp_path)
    assert len(str(refused.value)) < 500
