"""The target of a diagnosis: it builds the pipeline that the environment variable describes."""

import json
import os
from typing import Final

import cattrs
import grain

from perf_tests.studies.diagnosis.pipelines import Pipeline

VARIABLE: Final = "NETPIPE_DRAWN_PIPELINE"


def describe(pipeline: Pipeline) -> str:
    """Return the value of the environment variable for a pipeline."""
    return json.dumps(cattrs.unstructure(pipeline))


def parse_pipeline(text: str) -> Pipeline:
    """Read the value that `describe` returned."""
    return cattrs.structure(json.loads(text), Pipeline)


def loader() -> grain.IterDataset:
    """Build the pipeline that the environment variable describes."""
    return parse_pipeline(os.environ[VARIABLE]).dataset()
