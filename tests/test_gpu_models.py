"""Files that name GPU models agree on the families and their CUDA extras."""

import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

from netpipe.device.accelerators import ACCELERATORS, matches

ROOT = Path(__file__).parents[1]
FAMILIES = {
    **dict.fromkeys(("t4", "l4", "a100", "h100", "h200"), "cuda12"), "b200": "cuda13",
    "gb200": "cuda13",
}  # fmt: skip
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_model(family: str) -> None:
    """The package knows the peak of each."""
    assert any(matches(f"{model.key}-x1", family) for model in ACCELERATORS)


def listed(file: str, key: str) -> set[str]:
    """Return the names that a YAML file of .github lists under a key, on one line."""
    (found,) = re.findall(
        rf"^ *{key}: \[(.*)\]$", (ROOT / ".github" / file).read_text(), re.MULTILINE
    )
    return set(found.split(", "))


def test_every_model_has_a_tox_environment() -> None:
    """tox.ini has one section for GPUs, with an environment for each family."""
    sections = re.findall(
        r"^\[testenv:\{(.*h200.*)\}\]$", (ROOT / "tox.ini").read_text(), re.MULTILINE
    )
    assert [set(names.split(",")) for names in sections] == [set(FAMILIES)]


def test_every_environment_installs_the_cuda_of_its_model() -> None:
    """The family's extra is installed, for the other version of a comparison too."""
    command = [sys.executable, "-m", "tox", "config", "-e", ",".join(FAMILIES)]
    shown = subprocess.run(
        [*command, "-k", "extras", "commands"], capture_output=True, check=True, cwd=ROOT, text=True
    )
    config = ConfigParser()
    config.read_string(shown.stdout)
    for family, extra in FAMILIES.items():
        section = config[f"testenv:{family}"]
        assert set(section["extras"].split()) == {"dev", extra}
        assert section["commands"].endswith(f"--netpipe-against-extras {extra},workload")


@pytest.mark.parametrize("extra", sorted(set(FAMILIES.values())))
def test_every_extra_installs_jax_for_its_cuda(extra: str) -> None:
    """Each extra of a family is an extra of the package."""
    assert f"jax[{extra}]" in EXTRAS[extra]


def test_workflows_offer_every_model() -> None:
    """A baseline can be recorded on each family, and each is a label that a runner may have."""
    assert listed("workflows/record-baseline.yml", "options") == set(FAMILIES)
    assert listed("actionlint.yaml", "labels") == {"gpu", *FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_documentation_names_every_model(family: str) -> None:
    """The README or a page of docs names the environment of each family."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(re.search(rf"`(tox -e )?{family}`", page.read_text()) for page in pages)
