"""A stand-in for MaxText, with the names that netpipe's loader imports from it.

Its configurations know only `key=value`. `install` writes it as a package.
"""

from pathlib import Path

_SOURCE = """
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

__path__ = []


class StopTraining(Exception):
    pass


class DataLoader:
    def __init__(self, config, mesh, iterator, recorder, rampup_manager):
        self.left = iter(iterator)

    def load_next_batch(self):
        try:
            return next(self.left)
        except Exception as error:
            raise StopTraining("`next(self.data_iterator)` failed")


def create_data_iterator(config, mesh):
    return make_batches(int(config.batches), config.fails), None


def make_batches(count, fails):
    for number in range(count):
        yield {"inputs": np.full((2, 8), number, np.int32)}
    if fails == "true":
        raise ValueError("disk on fire")


def initialize(words):
    settings = {"batches": "100000", "fails": "false"}
    settings |= dict(word.split("=", 1) for word in words[2:])
    try:
        if "no_such_key" in settings:
            raise ValueError("'no_such_key' not in " + ", ".join(map(repr, range(1000))))
    except ValueError:
        sys.exit(2)
    return SimpleNamespace(**{"enable_diloco": True, **settings}), None


def _module(name, **contents):
    made = sys.modules[f"{__name__}.{name}"] = ModuleType(f"{__name__}.{name}")
    vars(made).update(contents)
    holder, _, last = made.__name__.rpartition(".")
    setattr(sys.modules[holder], last, made)


for _name in ("common", "input_pipeline", "trainers", "trainers.pre_train", "utils"):
    _module(_name)
_module("common.common_types", ReorderStrategy=None)
_module("common.data_loader", create_dataloader=DataLoader)
_module("input_pipeline.input_pipeline_interface", create_data_iterator=create_data_iterator)
_module("trainers.pre_train.train", initialize=initialize)
_module("utils.exceptions", StopTraining=StopTraining)
_module("utils.max_utils", reordered_cp_size=lambda config, mesh: 1)
_module("utils.maxtext_utils", get_mesh_from_config=lambda config: None)
_module("utils.train_utils")
"""


def install(folder: Path, source: str = _SOURCE) -> None:
    """Write the stand-in package into a folder."""
    (folder / "maxtext.py").write_text(source)
