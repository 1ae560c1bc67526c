"""One small data set, prepared once."""

from pathlib import Path

import pytest

from netpipe.workload.preparation.synthetic import generate


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of probe rows; do not write into it."""
    out = tmp_path_factory.mktemp("throughput") / "data"
    generate(out, probes=30)
    return out
