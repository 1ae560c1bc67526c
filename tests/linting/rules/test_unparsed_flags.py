"""The rule about absl's flags, and the programs that fail without them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from absl.flags import FLAGS

from tests.command import Netpipe, document
from tests.sessions_here import sessions_here as sessions_here

LOADER = """
import grain
from absl import flags

{imported}

def batches(workers={workers}):
    {made}
    batches = grain.MapDataset.range(64).batch(4).to_iter_dataset()
    return batches.mp_prefetch(grain.MultiprocessingOptions(workers))
"""
PROGRAM = """
def main(_):
    next(iter(batches()))

if __name__ == "__main__":
    {run}
"""
OWN_FLAG = 'flags.DEFINE_integer("size_of_batch", 4, "")'


@pytest.fixture
def _unparsed_flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process look like one that has not parsed its flags; restore them."""
    is_parsed = FLAGS.is_parsed()
    FLAGS.unparse_flags()
    monkeypatch.delitem(sys.modules, "absl.app", raising=False)
    yield
    for flag in FLAGS.flags_by_module_dict().get("program", ()):
        delattr(FLAGS, flag.name)
    (FLAGS.mark_as_parsed if is_parsed else FLAGS.unparse_flags)()


@pytest.mark.parametrize(
    ("imported", "made", "run", "workers", "fails"),
    [
        ("", "", "main([])", 1, True),
        ("", "", "main([])", 0, False),
        ("", "flags.FLAGS.is_parsed() or flags.FLAGS(['a'])", "main([])", 1, False),
        ("from absl import app", "", "app.run(main)", 1, False),
        (OWN_FLAG, "flags.FLAGS.size_of_batch", "main(flags.FLAGS(['a']))", 1, False),
    ],
    ids=["plain", "no-workers", "in-factory", "absl-app", "own-flag"],
)
def test_a_program_that_fails_is_reported(
    request: pytest.FixtureRequest,
    netpipe: Netpipe,
    tmp_path: Path,
    imported: str,
    made: str,
    run: str,
    workers: int,
    fails: bool,
) -> None:
    """The rule reports exactly the programs whose first batch fails with the installed Grain."""
    file = tmp_path / "program.py"
    loader = LOADER.format(imported=imported, made=made, workers=workers)
    file.write_text(loader + PROGRAM.format(run=run))
    ended = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert ("UnparsedFlagAccessError" in ended.stderr, ended.returncode != 0) == (fails, fails)
    if "absl" not in imported:  # which this process may have imported before
        request.getfixturevalue("sessions_here")
        request.getfixturevalue("_unparsed_flags")
    report = document(netpipe("lint", f"{file}:batches", "--json"), "lint.1.json")
    assert report["graph"]
    assert ("unparsed-flags" in [each["rule"] for each in report["findings"]]) == fails
