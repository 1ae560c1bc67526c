"""Registration with modules that imitate MaxText. `tox -e maxtext` has the real one."""

import json
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from netpipe.errors import InputError, LoaderFailedError, MisuseError
from netpipe.watching.logs import Log
from netpipe.workload.trainer import iterators, maxtext
from netpipe.workload.trainer.network_config import NetworkConfig

DATA_LOADER = "maxtext.common.data_loader"
INTERFACE = "maxtext.input_pipeline.input_pipeline_interface"
CHECKPOINTING = "maxtext.common.checkpointing"
TRAIN = "maxtext.trainers.pre_train.train"


class Shape:
    """The functions of MaxText 0.2.5 that are replaced."""

    @staticmethod
    def create_data_iterator(config: Any, mesh: Any) -> tuple[str, None]:
        """Return synthetic data for a type that it does not know."""
        return f"synthetic data for {config.dataset_type} on {mesh}", None

    @staticmethod
    def maybe_save_checkpoint(
        checkpoint_manager: Any, state: Any, config: Any, data_iterator: Any, step: int
    ) -> Any:
        """Return the position, which is saved for Grain's iterators only."""
        saves = config.dataset_type == "grain" and config.vocab_size == 32_000
        return (checkpoint_manager, state, step), saves and data_iterator.get_state().decode()

    @staticmethod
    def load_state_if_possible(checkpoint_manager: Any, data_iterator: Any) -> str:
        """Restore the weights."""
        return "weights" if checkpoint_manager and data_iterator else "none"

    @staticmethod
    def training_loop_iteration(
        jax_device_state: Any, python_vars: Any, immutable_data: Any
    ) -> dict[str, Any]:
        """Train on a batch; the loss is the batch."""
        loader, rampup_manager = python_vars["data_loader"], python_vars["rampup_manager"]
        batch = loader.load_next_batch(rampup_manager=rampup_manager)
        loss = jax_device_state + immutable_data["steps"] * jnp.asarray(batch["inputs"])
        return {"scalar": {"learning/loss": loss}, "scalars": {}}


class DataLoader:
    """MaxText's data loader, as far as these tests need it."""

    def __init__(self, config: Any, data_iterator: Iterator[Any]) -> None:
        self.config = config
        self.data_iterator = data_iterator

    def load_next_batch_pre_sharding(self) -> Any:
        """Return the next batch."""
        try:
            return next(self.data_iterator)
        except Exception as error:  # noqa: BLE001
            raise RuntimeError(f"failed with {error}")  # noqa: B904  # as MaxText does

    def load_next_batch(self, *, rampup_manager: Any) -> Any:
        """Return the next batch; its size is the manager's."""
        return {**self.load_next_batch_pre_sharding(), "size": rampup_manager}


class Broken(iterators.TrainIterator):
    """An iterator of ours whose loader fails, and which keeps its state."""

    def __init__(self) -> None:
        self.state: Mapping[str, Any] = {}

    def __next__(self) -> Any:
        """Fail."""
        raise LoaderFailedError("worker process 7 was ended by SIGKILL")

    def get_state(self) -> dict[str, Any]:
        """Return the state that was set."""
        return dict(self.state)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Keep it."""
        self.state = state


class Reordered(Iterator[Any]):
    """MaxText's wrapper of an iterator, which reorders batches."""

    def __init__(self, data_iterator: Iterator[Any]) -> None:
        self.data_iterator = data_iterator

    def __next__(self) -> Any:
        """Return the next batch."""
        return next(self.data_iterator)


def configured(dataset_type: Any = "network", **settings: Any) -> SimpleNamespace:
    """Return a configuration of MaxText that suits the registered type, but for these settings."""
    suits = {
        "dataset_type": dataset_type, "network_train_files": "data", "vocab_size": 32_000,
        "expansion_factor_real_data": -1, "enable_emergency_checkpoint": False,
        "enable_multi_tier_checkpointing": False, "eval_interval": -1,
    }  # fmt: skip
    return SimpleNamespace(**{**suits, **settings})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Install modules in the shape of MaxText 0.2.5, and the function that it needs of pydantic."""
    fields = {name: SimpleNamespace(annotation=str) for name in vars(NetworkConfig("data"))}
    own = [name for name in fields if name.startswith(("network_", "grain_debug_"))]
    fields = {name: field for name, field in fields.items() if name not in own}
    fields["dataset_type"] = SimpleNamespace(annotation=None)
    configuration = SimpleNamespace(model_fields=fields, model_rebuild=lambda force: force)
    contents: dict[str, dict[str, Any]] = {
        "maxtext": {"__version__": "9.9"},
        "maxtext.configs": {},
        "maxtext.configs.types": {
            "DatasetType": Enum("DatasetType", {"GRAIN": "grain"}, type=str),
            "MaxTextConfig": configuration,
        },
        "maxtext.common": {},
        CHECKPOINTING: {
            "maybe_save_checkpoint": Shape.maybe_save_checkpoint,
            "load_state_if_possible": Shape.load_state_if_possible,
        },
        DATA_LOADER: {"DataLoader": type("DataLoader", (), dict(vars(DataLoader)))},
        "maxtext.input_pipeline": {},
        INTERFACE: {"create_data_iterator": Shape.create_data_iterator},
        "maxtext.trainers": {},
        "maxtext.trainers.pre_train": {},
        TRAIN: {"training_loop_iteration": Shape.training_loop_iteration},
        "a_trainer": {"create_data_iterator": Shape.create_data_iterator},
        "pydantic": {
            "create_model": lambda name, **held: SimpleNamespace(name=name, model_fields=held)
        },
    }
    modules = {}
    for name, held in contents.items():
        modules[name] = ModuleType(name)
        vars(modules[name]).update(held, __path__=[])
        monkeypatch.setitem(sys.modules, name, modules[name])
        holder, _, last = name.rpartition(".")
        if holder:
            setattr(modules[holder], last, modules[name])
    monkeypatch.setattr(maxtext, "register", maxtext.register.__wrapped__)
    return modules


def test_the_type_and_its_settings_are_registered(fake: dict[str, ModuleType]) -> None:
    """The enum has the type beside MaxText's own, and the configuration the added settings."""
    maxtext.register()
    types = fake["maxtext.configs.types"]
    assert [kind.value for kind in types.DatasetType] == ["grain", "network"]
    assert types.MaxTextConfig.model_fields["dataset_type"].annotation is types.DatasetType
    assert types.NetworkDataset.model_fields["network_train_files"] == (str, "")
    assert types.MaxTextConfig.model_fields["grain_debug_mode"] == (bool, False)
    assert types.MaxTextConfig.model_fields["netpipe_watch_dir"] == (str, "")
    assert "packing" not in types.NetworkDataset.model_fields


def test_our_iterators_are_made_wherever_the_function_was_imported(
    fake: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that imported the function before get ours too; other types stay MaxText's."""
    monkeypatch.setattr(iterators, "make_network_train_iterator", lambda *words: ("train", *words))
    monkeypatch.setattr(iterators, "make_network_eval_iterator", lambda *words: ("eval", *words))
    maxtext.register()
    for module in (fake[INTERFACE], fake["a_trainer"]):
        config = configured()
        made = module.create_data_iterator(config, "mesh")
        assert made == (("train", config, "mesh", range(1)), None)
        config = configured(eval_interval=10)
        assert module.create_data_iterator(config, "mesh")[1][0] == "eval"
        others = module.create_data_iterator(configured("grain"), "mesh")
        assert others == ("synthetic data for grain on mesh", None)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("vocab_size", 256, "vocab_size must be at least 267; found 256"),
        ("expansion_factor_real_data", 2, "expansion_factor_real_data must be -1; found 2"),
        ("enable_emergency_checkpoint", True, "enable_emergency_checkpoint must be false"),
    ],
)
def test_settings_that_cost_data_are_refused(
    fake: dict[str, ModuleType], setting: str, value: object, says: str
) -> None:
    """MaxText would drop or repeat data, or train on tokens that its model does not have."""
    maxtext.register()
    with pytest.raises(InputError, match=f"dataset_type=network: {says}"):
        fake[INTERFACE].create_data_iterator(configured(**{setting: value}), "mesh")


def test_training_on_other_batches_is_refused(fake: dict[str, ModuleType]) -> None:
    """Any other iterator is refused, for this type only."""
    maxtext.register()
    synthetic = iter([{"inputs": 1}] * 2)
    loader = fake[DATA_LOADER].DataLoader(configured(), synthetic)
    with pytest.raises(MisuseError, match="must train on a TrainIterator; found a list_iterator"):
        loader.load_next_batch_pre_sharding()
    loader = fake[DATA_LOADER].DataLoader(configured("synthetic"), synthetic)
    assert loader.load_next_batch_pre_sharding() == {"inputs": 1}


def test_our_errors_end_a_training(fake: dict[str, ModuleType]) -> None:
    """MaxText's exception would be logged, and the exit code be 0; the end of an epoch stays so."""
    maxtext.register()
    for broken in (Broken(), Reordered(Broken())):
        loader = fake[DATA_LOADER].DataLoader(configured(), broken)
        with pytest.raises(LoaderFailedError, match="worker process 7"):
            loader.load_next_batch_pre_sharding()
    loader = fake[DATA_LOADER].DataLoader(configured("grain"), iter([]))
    with pytest.raises(RuntimeError, match="failed with"):
        loader.load_next_batch_pre_sharding()


@pytest.mark.parametrize("dataset_type", ["synthetic", "hf"])
def test_a_training_is_watched(
    fake: dict[str, ModuleType], dataset_type: str, tmp_path: Path
) -> None:
    """The batches and steps of any dataset type are watched, if a folder is set."""
    maxtext.register()
    for folder in ("", str(tmp_path / "logs")):
        config = configured(dataset_type, netpipe_watch_dir=folder)
        loader = fake[DATA_LOADER].DataLoader(config, iter([{"inputs": n} for n in range(3)]))
        python_vars = {"data_loader": loader, "rampup_manager": 8}
        losses = [
            fake[TRAIN].training_loop_iteration(5, python_vars, {"config": config, "steps": 2})
            for _ in range(3)
        ]
        assert [float(each["scalar"]["learning/loss"]) for each in losses] == [5, 7, 9]
        with pytest.raises(RuntimeError, match="failed with"):
            fake[TRAIN].training_loop_iteration(5, python_vars, {"config": config, "steps": 2})
    python_vars["data_loader"].stop()
    [window] = Log(tmp_path / "logs" / "process-0.jsonl").read()
    assert window.figures.batches == 3
    assert window.figures.synced_fraction is not None


def test_positions_are_saved_as_those_of_grain(fake: dict[str, ModuleType]) -> None:
    """MaxText saves the position of no other type."""
    maxtext.register()
    save = fake[CHECKPOINTING].maybe_save_checkpoint
    batches = Broken()
    batches.set_state({"batch": 3})
    assert save("manager", "state", configured(), batches, 2) == (
        ("manager", "state", 2), '{"batch": 3}'
    )  # fmt: skip
    assert save("manager", "state", configured("hf"), iter([]), 2)[1] is False


def test_a_restored_training_goes_on_in_the_data(
    fake: dict[str, ModuleType], tmp_path: Path
) -> None:
    """Training continues at the position of its checkpoint; one without a position is refused."""
    maxtext.register()
    restore = fake[CHECKPOINTING].load_state_if_possible
    batches, manager = Broken(), SimpleNamespace(directory=tmp_path, latest=None)
    assert restore(None, batches) == "none"
    assert restore(manager, batches) == "weights"
    assert batches.state == {}
    manager.latest = SimpleNamespace(step=7)
    with pytest.raises(InputError, match="7/iter: position must be in the checkpoint"):
        restore(manager, batches)
    (tmp_path / "7" / "iter").mkdir(parents=True)
    (tmp_path / "7" / "iter" / "process_0-of-2.json").write_text(json.dumps({"batch": 8}))
    assert restore(manager, batches) == "weights"
    assert batches.state == {"batch": 8}
    assert restore(manager, iter([])) == "weights"
    (tmp_path / "7" / "iter" / "process_0-of-2.json").write_text('{"batch"')
    with pytest.raises(InputError, match=r"process_0-of-2\.json: position must be JSON"):
        restore(manager, batches)


@pytest.mark.parametrize(
    ("module", "name", "value", "says"),
    [
        (INTERFACE, "create_data_iterator", None, "create_data_iterator.*found .*no attribute"),
        (
            INTERFACE, "create_data_iterator", lambda settings: settings,
            r"create_data_iterator\(config, mesh, ...\) .*; found \(settings\)",
        ),
        (DATA_LOADER, "DataLoader", type("Other", (), {}), "load_next_batch_pre_sharding"),
        (TRAIN, "training_loop_iteration", lambda state: state, "training_loop_iteration"),
        ("maxtext.configs.types", "MaxTextConfig", None, "configs.types.MaxTextConfig"),
        (
            "maxtext.configs.types", "MaxTextConfig", SimpleNamespace(model_fields={}),
            "the settings .*max_target_length.*; found none",
        ),
    ],
)  # fmt: skip
def test_a_release_of_another_shape_is_refused(
    fake: dict[str, ModuleType], module: str, name: str, value: object, says: str
) -> None:
    """The error has its number and the missing part, and nothing has changed."""
    delattr(fake[module], name) if value is None else setattr(fake[module], name, value)
    with pytest.raises(MisuseError, match=f"MaxText 9.9 must have .*{says}"):
        maxtext.register()
    assert fake["a_trainer"].create_data_iterator is Shape.create_data_iterator
    assert not hasattr(fake["maxtext.configs.types"], "NetworkDataset")


def test_a_missing_maxtext_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "maxtext"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "maxtext", None)
    with pytest.raises(MisuseError, match=r"Install maxtext==0\.2\.5"):
        maxtext.register.__wrapped__()
