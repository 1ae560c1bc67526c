"""The data of the pipeline's own tests."""

from tests.workload.conftest import histories as histories
from tests.workload.conftest import many as many
from tests.workload.conftest import parquet as parquet
from tests.workload.conftest import prepared as prepared
