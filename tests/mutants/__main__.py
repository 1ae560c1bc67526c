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


def passes(tests: str, copy: Path) -> bool | None:
    """Return whether tests pass in a copy of the repository; None if they take too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    environment = os.environ | {"PYTHONPATH": str(copy), "JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, timeout=_LIMIT_S, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    assert done.returncode in (0, 1, 2), done.stdout.decode()
    return done.returncode == 0


def try_mutant(mutant: dict[str, str], copy: Path) -> str:
    """Return "killed" if tests fail in the copy because of one mutant; else the result."""
    file = copy / mutant["file"]
    text = file.read_text()
    assert text.count(mutant["old"]) == 1, mutant
    file.write_text(text.replace(mutant["old"], mutant["new"]))
    try:
        passed = passes(mutant["tests"], copy)
    finally:
        file.write_text(text)
    return {True: "SURVIVED", False: "killed", None: "NOT JUDGED: out of time"}[passed]


def main() -> int:
    """Print each mutant with its result; return the number of those that were not killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="*")
    mutants = read_mutants(parser.parse_args().areas)
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "netpipe"
        shutil.copytree(ROOT, copy, ignore=_NOT_COPIED)
        # A failure means something only where the tests pass without a mutant.
        is_green = {tests: passes(tests, copy) for tests in {each["tests"] for each in mutants}}
        for mutant in mutants:
            fate = "NOT JUDGED: its tests fail without it"
            if is_green[mutant["tests"]]:
                fate = try_mutant(mutant, copy)
            alive += fate != "killed"
            sys.stdout.write(f"{fate}: {mutant['file']}: {mutant['what']}\n")
            sys.stdout.flush()
    return alive


if __name__ == "__main__":
    sys.exit(bool(main()))
