"""The target of a diagnosis: it builds the pipeline that the environment variable describes."""

import json
import os
from typing import Final

import cattrs
import grain

from perf_tests.studies.diagnosis.pipelines import Pipeline

VARIABLE: Final = "NETPIPE_DRAWN_PIPELINE"


def described(pipeline: Pipeline) -> str:
    """Return what the environment variable must hold for a pipeline."""
    return json.dumps(cattrs.unstructure(pipeline))


def pipeline_from(text: str) -> Pipeline:
    """Read what `described` returned."""
    return cattrs.structure(json.loads(text), Pipeline)


def loader() -> grain.IterDataset:
    """Make the pipeline that this process was started for."""
    return pipeline_from(os.environ[VARIABLE]).dataset()
