"""Reads a version's file in the process of the test, without starting another one."""

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from netpipe.duets.parent import Side
from netpipe.jobs.targets import Factories
from netpipe.judge.reading import Reading, ReadRequest
from netpipe.judge.reading_job import read_loader
from netpipe.results.fields import parse


def read_here(side: Side[ReadRequest], seed: str = "0", *_: object) -> Reading:
    """Read the batches of one version; a value of PYTHONHASHSEED changes no hash here."""
    target = side.request.targets["loader"]
    file = (side.environment.folder or Path()) / target.where
    factories = Factories(run_path(str(file))[target.name])
    with TemporaryDirectory() as folder, patch.dict(os.environ, PYTHONHASHSEED=seed):
        request = replace(side.request, result=str(Path(folder) / "result.json"))
        found = read_loader(request, factories, ExitStack())
    return parse(found["read"], Reading, side.name)
