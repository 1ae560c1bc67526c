"""The settings of a trainer, and the names of those that are refused."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.workload.config import PipelineConfig
from netpipe.workload.trainer.network_config import (
    NetworkConfig,
    read_network_config,
    take_network_config,
)


def test_settings_and_overrides_become_a_host_s_pipeline(many: Path) -> None:
    """Each setting reaches the pipeline, divided among the hosts where it is for all of them."""
    words = ("max_target_length=512", "packing=False", "num_epoch=3", "grain_worker_count=5")
    settings = {"network_train_files": str(many), "global_batch_size_to_load": 24}
    config = read_network_config(settings, (*words, "data_sharding=data,fsdp"))
    assert config.data_sharding == ("data", "fsdp")
    folder, pipeline = config.for_host(2, 3, evaluates=False)
    assert folder == many
    assert pipeline == PipelineConfig(
        sequence_length=512, batch_size=8, packing=False, epochs=3, workers=5, row_cache_mb=1024,
        shard_index=2, shard_count=3,
    )  # fmt: skip


def test_evaluation_has_settings_of_its_own(many: Path, prepared: Path) -> None:
    """Evaluation has the size and the folder of training unless it has its own."""
    same = NetworkConfig(str(many), global_batch_size_to_load=6)
    folder, pipeline = same.for_host(0, 2, evaluates=True)
    assert (folder, pipeline.batch_size, pipeline.split) == (many, 3, "eval")
    assert (pipeline.workers, pipeline.worker_buffer_batches, pipeline.epochs) == (1, 1, None)
    own = NetworkConfig(
        str(many), str(prepared), global_batch_size_to_load_eval=4, grain_worker_count_eval=0
    )
    folder, pipeline = own.for_host(0, 2, evaluates=True)
    assert (folder, pipeline.batch_size, pipeline.workers) == (prepared, 2, 0)


@pytest.mark.parametrize(
    ("settings", "words", "message"),
    [
        ({"network_train_file": "x"}, (), "name must be one of .*network_train_files"),
        ({}, (), "network_train_files must be given"),
        ({"network_train_files": "x"}, ("packing",), "override must be name=value"),
        ({"network_train_files": "x"}, ("workers=3",), "name must be one of"),
        ({"network_train_files": "x"}, ("packing=maybe",), "packing must be of type bool"),
        ({"network_train_files": "x"}, ("num_epoch=2.5",), "num_epoch must be of type int"),
        ({"network_train_files": "x", "num_epoch": True}, (), "num_epoch must be of type int"),
        ({"network_train_files": "x", "network_data_format": "csv"}, (), "network_data_format"),
        ({"network_train_files": ""}, (), "network_train_files must be given"),
        ({"grain_train_files": "x"}, (), "name must be .*Write network_train_files"),
        ({"network_train_files": "x"}, ("grain_file_type=y",), "Write network_data_format"),
        ({"network_train_files": "x"}, ("ram_budget_mb=1",), "name must be .*row_cache_mb"),
        ({"network_train_files": "x", "data_sharding": []}, (), "data_sharding must be of type"),
        ({"network_train_files": "x", "data_sharding": [1]}, (), "data_sharding must name differ"),
        ({"network_train_files": "x"}, ("data_sharding=a,b,a",), "data_sharding must name differ"),
        ({"network_train_files": "x"}, ("num_epoch=--5",), "num_epoch must be of type int"),
        ({"network_train_files": "x"}, (f"num_epoch={'9' * 5000}",), "num_epoch must be of type"),
        ({"network_train_files": "x"}, ("grain_ram_budget_mb=0",), "budget_mb must be at least 1"),
        ({"network_train_files": "x"}, ("grain_debug_period_s=0",), "period_s must be at least 1"),
        ({"network_train_files": "x", "network_batch_limit_s": 0}, (), "limit_s must be at least"),
    ],
)
def test_what_is_no_setting_is_refused(
    settings: dict[str, Any], words: tuple[str, ...], message: str
) -> None:
    """An unknown or invalid setting is refused by its name, with the allowed ones."""
    with pytest.raises(InputError, match=message):
        read_network_config(settings, words)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"global_batch_size_to_load": 7},
            "global_batch_size_to_load must be .*divisible by the 2",
        ),
        ({"max_target_length": 8}, "max_target_length must be at least 47; found 8"),
        ({"grain_worker_count": -2}, "grain_worker_count must be at least 0, or -1 .*; found -2"),
        ({"grain_per_worker_buffer_size": 0}, "grain_per_worker_buffer_size must be at least 1"),
        ({"num_epoch": -1}, "num_epoch must be at least 1, or 0 for no end; found -1"),
        ({"row_cache_mb": 1 << 30}, "row_cache_mb must be at most .*the memory of this host"),
        ({"network_train_files": "~nobody-here/x"}, "network_train_files must be one folder that"),
        (
            {"network_data_format": "parquet"},
            "network_train_files must hold .*parquet; found arrayrecord",
        ),
    ],
)
def test_impossible_values_are_refused_by_their_own_names(
    many: Path, changed: dict[str, Any], message: str
) -> None:
    """The error has the setting's name, not that of the pipeline's field."""
    config = read_network_config({"network_train_files": str(many), **changed})
    with pytest.raises(InputError, match=message):
        config.for_host(0, 2, evaluates=False)


@pytest.mark.parametrize(
    ("alias", "data"), [("probe_chunks", "prepared"), ("network_parquet", "parquet")]
)
def test_formats_have_the_names_of_their_loaders_too(
    request: pytest.FixtureRequest, alias: str, data: str
) -> None:
    """Each of them takes its own format, and refuses the other."""
    folder: Path = request.getfixturevalue(data)
    config = read_network_config(
        {"network_train_files": str(folder)}, [f"network_data_format={alias}"]
    )
    assert config.for_host(0, 1, evaluates=False)[0] == folder
    other = request.getfixturevalue("parquet" if data == "prepared" else "prepared")
    with pytest.raises(InputError, match="network_train_files must hold"):
        replace(config, network_train_files=str(other)).for_host(0, 1, evaluates=False)


@pytest.mark.parametrize(
    "files", ["train.arrayrecord", "*.arrayrecord", "t[ru]ain-?.arrayrecord", "**/*.arrayrecord"]
)
@pytest.mark.parametrize("setting", ["network_train_files", "network_eval_files"])
def test_files_are_refused_with_the_folder_to_write(
    tmp_path: Path, prepared: Path, setting: str, files: str
) -> None:
    """Files and patterns are refused, even if no file matches."""
    (tmp_path / "train.arrayrecord").touch()
    settings = {"network_train_files": str(prepared), setting: str(tmp_path / files)}
    config = read_network_config(settings)
    message = f"{setting} must be one folder that exists; found .*Write {tmp_path}: "
    with pytest.raises(InputError, match=message):
        config.for_host(0, 1, evaluates=setting == "network_eval_files")


@pytest.mark.parametrize(
    "files",
    [
        "/a/x.arrayrecord,0.3;/b/y.arrayrecord,0.7",
        "gs://a/b",
        "/a",
        "/a/*.arrayrecord",
        "x.arrayrecord,0.1;" * 20,
        "['a', 'b']",
    ],
)
def test_what_is_not_one_folder_is_refused_with_the_command_that_makes_it(files: str) -> None:
    """Weighted files, a URI, and a folder that does not exist are refused."""
    with pytest.raises(InputError, match=r"network_train_files must .*`netpipe prepare SRC\.\.\."):
        NetworkConfig(files).for_host(0, 1, evaluates=False)


def test_a_home_folder_is_found(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde stands for the home folder, as in MaxText."""
    monkeypatch.setenv("HOME", str(prepared.parent))
    config = NetworkConfig(f"~/{prepared.name}")
    assert config.for_host(0, 1, evaluates=False)[0] == prepared


def test_values_of_maxtext_s_base_configuration_mean_the_same(many: Path) -> None:
    """MaxText 0.2.5 has these settings in base.yml, with these values."""
    base = SimpleNamespace(
        network_train_files=str(many), max_target_length=2048, global_batch_size_to_load=8,
        global_batch_size_to_load_eval=4, data_sharding=[["data", "fsdp", "tensor"]],
        data_shuffle_seed=0, packing=True, num_epoch=1, grain_worker_count=1,
        grain_per_worker_buffer_size=1, grain_ram_budget_mb=1024, grain_worker_count_eval=1,
        grain_per_worker_buffer_size_eval=1, grain_train_files="", grain_file_type="arrayrecord",
    )  # fmt: skip
    taken = take_network_config(base)
    assert taken.data_sharding == ("data", "fsdp", "tensor")
    assert taken == read_network_config(
        {
            name: value
            for name, value in vars(base).items()
            if not name.startswith(("grain_t", "grain_f"))
        }
    )
    _, pipeline = taken.for_host(0, 2, evaluates=False)
    assert pipeline == PipelineConfig(
        sequence_length=2048, batch_size=4, epochs=1, workers=1, worker_buffer_batches=1,
        shard_count=2, row_cache_mb=1024,
    )  # fmt: skip
    assert taken.for_host(0, 2, evaluates=True)[1].batch_size == 2


def test_a_budget_for_workers_does_not_keep_rows(many: Path) -> None:
    """The budget may exceed this host's memory, and does not affect a fixed number of workers."""
    words = ("grain_ram_budget_mb=1000000000", "grain_worker_count=3")
    config = read_network_config({"network_train_files": str(many)}, words)
    _, pipeline = config.for_host(0, 1, evaluates=False)
    assert (pipeline.workers, pipeline.row_cache_mb) == (3, 1024)
