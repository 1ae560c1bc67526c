"""Configuration files, and the errors of wrong ones."""

from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.workload.config import Config, PipelineConfig, StepConfig, load_config


def written(folder: Path, text: str) -> Path:
    """Write a configuration file."""
    path = folder / "netpipe.toml"
    path.write_text(text)
    return path


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    """Every table and every key is optional."""
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
    ("text", "field", "wanted", "found"),
    [
        ("[pipeline", "file", "TOML", ""),
        ("[pipes]", "table", "pipeline, step", "'pipes'"),
        ("pipeline = 3", "pipeline", "a table", "3"),
        ("[pipeline]\nworker = 2", "pipeline key", "seed, ", "'worker'"),
        ("[pipeline]\nram_budget_mb = 2", "pipeline key", "row_cache_mb", "'ram_budget_mb'"),
        ("[pipeline]\nworkers = 1.5", "pipeline.workers", "type int", "1.5"),
        ("[pipeline]\nworkers = true", "pipeline.workers", "type int", "True"),
        ("[pipeline]\nworkers = -1", "pipeline.workers", "at least 0", "-1"),
        ("[pipeline]\nepochs = 0", "pipeline.epochs", "at least 1", "0"),
        ('[pipeline]\nsplit = "test"', "pipeline.split", '"train" or "eval"', "'test'"),
        ("[pipeline]\nshard_index = 1", "pipeline.shard_index", "below shard_count 1", "1"),
        ('[step]\npreset = "huge"', "step.preset", "tiny, latency-95m", "'huge'"),
        (
            "[step]\nlearning_rate = 0.0",
            "step.learning_rate",
            "above 0, and finite",
            "0.0",
        ),
    ],
)
def test_a_wrong_file_is_one_line(
    tmp_path: Path, text: str, field: str, wanted: str, found: str
) -> None:
    """The error names the file, the key, the constraint and the value found."""
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(path)
    error = caught.value
    assert (error.where, error.field) == (path, field)
    assert wanted in error.constraint
    assert str(error.found).startswith(found)
    assert "\n" not in str(error).removesuffix("\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that does not exist is an InputError too."""
    with pytest.raises(InputError, match="must be readable"):
        load_config(tmp_path / "none.toml")
