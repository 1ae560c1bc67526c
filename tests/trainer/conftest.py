"""The data of the pipeline's own tests."""

from tests.data.conftest import histories as histories
from tests.data.conftest import many as many
from tests.data.conftest import parquet as parquet
from tests.data.conftest import prepared as prepared
