"""Break the package in the listed ways, one at a time, and see that a test fails each time.

`python -m tests.mutants [AREA...]` reads `tests/mutants/<area>.toml`. Each mutant has
a file, the text `old` that occurs in it once, the text `new`, and the tests that must notice.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_LIMIT_S: Final = 600
_NOT_COPIED: Final = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")


def read_mutants(areas: list[str]) -> list[dict[str, str]]:
    """Return the mutants of some areas, or of all of them."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    chosen = [file for file in files if not areas or file.stem in areas]
    return [mutant for file in chosen for mutant in tomllib.loads(file.read_text())["mutant"]]


def is_killed(mutant: dict[str, str], copy: Path) -> bool:
    """Return whether a test fails in a copy of the repository that has one mutant."""
    file = copy / mutant["file"]
    text = file.read_text()
    assert text.count(mutant["old"]) == 1, mutant
    file.write_text(text.replace(mutant["old"], mutant["new"]))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(copy), "JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            [*command, *mutant["tests"].split()],
            cwd=copy, env=environment, timeout=_LIMIT_S, capture_output=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(text)
    assert done.returncode in (0, 1, 2), done.stdout.decode()
    return done.returncode != 0


def main() -> int:
    """Print each mutant with its fate; return the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="*")
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "netpipe"
        shutil.copytree(ROOT, copy, ignore=_NOT_COPIED)
        for mutant in read_mutants(parser.parse_args().areas):
            killed = is_killed(mutant, copy)
            survivors += not killed
            word = "killed  " if killed else "SURVIVED"
            sys.stdout.write(f"{word} {mutant['file']}: {mutant['what']}\n")
            sys.stdout.flush()
    return survivors


if __name__ == "__main__":
    sys.exit(main())
