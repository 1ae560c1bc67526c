"""This repository's pipeline, for judging that nothing has changed in it."""

from dataclasses import replace

from netpipe.workload.config import Config
from netpipe.workload.preparation.synthetic import data_of_user
from netpipe.workload.resume import ResumableBatches


def batches(workers: int = 0, epochs: int | None = None) -> ResumableBatches:
    """Return the training batches of the embedded data."""
    settings = replace(Config().pipeline, workers=workers, epochs=epochs)
    return ResumableBatches(data_of_user(), settings)
