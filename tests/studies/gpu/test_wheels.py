"""The list of packages for a machine without network."""

import re
import tomllib

from tests.root_process import ROOT

LIST = ROOT / "perf_tests" / "studies" / "gpu" / "wheels.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WITH_JAX = {"jax", "ml-dtypes", "numpy", "scipy"}


def test_the_list_has_every_requirement_but_those_of_jax() -> None:
    """The list has the requirements of the package, the pipeline and NVIDIA's binding once each."""
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *extras["workload"], *extras["cuda13"]]
    names = {re.split(r"[^a-z0-9-]", each)[0] for each in needed} - WITH_JAX
    listed = re.findall(r"^([a-z0-9-]+)", LIST.read_text("utf-8"), re.MULTILINE)
    assert names <= set(listed)
    assert not WITH_JAX & set(listed)
    assert len(set(listed)) == len(listed)
