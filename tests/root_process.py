"""Commands run in the root folder, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_module(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -m WORDS` in the root folder, on the CPU and apart from this pytest run."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
