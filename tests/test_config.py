"""Configuration files: what is read from them, and what is said of a wrong one."""

from pathlib import Path

import pytest

from netpipe.config import Config, PipelineConfig, StepConfig, load_config
from netpipe.errors import InputError


def written(folder: Path, text: str) -> Path:
    """Write a configuration file."""
    path = folder / "netpipe.toml"
    path.write_text(text)
    return path


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    """Every table and every key may be left out."""
    assert load_config(written(tmp_path, "")) == Config()


def test_both_tables_are_read(tmp_path: Path) -> None:
    """A whole number stands for a float, nothing else is converted."""
    text = (
        '[pipeline]\nworkers = 0\nepochs = 2\n[step]\npreset = "latency-95m"\nlearning_rate = 1\n'
    )
    assert load_config(written(tmp_path, text)) == Config(
        PipelineConfig(workers=0, epochs=2), StepConfig("latency-95m", learning_rate=1)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pipeline", "must be TOML"),
        ("[pipes]", "table must be one of pipeline, step; found 'pipes'"),
        ("pipeline = 3", "pipeline must be a table; found 3"),
        ("[pipeline]\nworker = 2", "pipeline key must be one of seed, "),
        ("[pipeline]\nworkers = 1.5", "pipeline.workers must be of type int; found 1.5"),
        ("[pipeline]\nworkers = true", "pipeline.workers must be of type int; found True"),
        ("[pipeline]\nworkers = -1", "pipeline.workers must be at least 0; found -1"),
        ("[pipeline]\nepochs = 0", "pipeline.epochs must be at least 1, or left out; found 0"),
        ('[pipeline]\nsplit = "test"', "pipeline.split must be"),
        ("[pipeline]\nshard_index = 1", "pipeline.shard_index must be below shard_count 1"),
        ('[step]\npreset = "huge"', "step.preset must be one of tiny, latency-95m; found 'huge'"),
        ("[step]\nlearning_rate = 0.0", "step.learning_rate must be above 0; found 0.0"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file, the key, the constraint and the value found."""
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value).removesuffix("\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is an InputError too."""
    with pytest.raises(InputError, match="must be readable"):
        load_config(tmp_path / "none.toml")
