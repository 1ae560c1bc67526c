"""`netpipe prepare` from a bucket and to a bucket. `tox -e storage-server` has the server."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.errors import InputError
from netpipe.workload.formats.index import load_index
from netpipe.workload.inspection import inspect
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.preparation.work_folder import WORK_NAME
from tests.storage_server.programs import has_rclone
from tests.storage_server.server import KEY, SECRET, find_free_ports, writable_server
from tests.workload.factories import as_table, make_pings

_KILLED = """
import os, signal, sys
from pathlib import Path
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation import output_folder, plan
from netpipe.workload.preparation.prepare import prepare

put, done = Place.put, []

def put_or_die(place, file):
    if not place.is_local and len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    put(place, file)
    done.extend([1] * (not place.is_local))

Place.put = put_or_die
output_folder._UPLOADED_AT_ONCE = 1
plan.SLICE_ROWS = 2000
prepare([sys.argv[1]], sys.argv[2], scratch=Path(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders that are served as buckets: one with measurements, and an empty one."""
    if not has_rclone():
        pytest.skip("tox -e storage-server runs this test")
    folder = tmp_path_factory.mktemp("buckets")
    (folder / "made").mkdir()
    for number in range(3):
        probes = range(20 * number, 20 * number + 20)
        tables = [as_table(make_pings(100 + probe, seed=probe), probe) for probe in probes]
        (folder / "measured" / "days").mkdir(parents=True, exist_ok=True)
        file = folder / "measured" / "days" / f"{number}.parquet"
        pq.write_table(pa.concat_tables(tables), file, row_group_size=1000)
    return folder


@pytest.fixture(scope="module")
def endpoint(buckets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A writable server."""
    with (
        pytest.MonkeyPatch.context() as patch,
        writable_server(buckets, tmp_path_factory.mktemp("server")) as running,
    ):
        # rclone does not take uploads in chunks that each have a checksum.
        patch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED")
        yield running


def uri(endpoint: str, path: str, secret: str = SECRET) -> str:
    """The URI of a file or a folder in a bucket."""
    settings = f"endpoint_override={endpoint}&scheme=http&region=us-east-1"
    return f"s3://{KEY}:{secret}@{path}?{settings}"


def files_in(folder: Path) -> list[str]:
    """The names of the files that are not empty."""
    return sorted(path.name for path in folder.iterdir() if path.stat().st_size)


def test_from_a_bucket_to_a_bucket(buckets: Path, endpoint: str, tmp_path: Path) -> None:
    """The bytes are those of local files, and a copy of the bucket can be read."""
    expected = prepare([buckets / "measured"], tmp_path / "local")
    words = ["prepare", uri(endpoint, "measured/days"), "--out", uri(endpoint, "made/rows")]
    result = CliRunner().invoke(main, [*words, "--scratch", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    made = buckets / "made" / "rows"
    assert load_index(made) == expected
    for path in (tmp_path / "local").iterdir():
        assert (made / path.name).read_bytes() == path.read_bytes()
    assert inspect(made)["measurements"] == expected.train.measurements + expected.eval.measurements
    assert files_in(made) == sorted(["index.json", *map(str, expected.files)])
    assert [path.name for path in tmp_path.iterdir()] == ["local"]


def test_data_in_a_bucket_are_replaced(buckets: Path, endpoint: str, tmp_path: Path) -> None:
    """The new data set is whole, though this server does not let pyarrow remove the old one."""
    source, out, made = buckets / "measured", uri(endpoint, "made/again"), buckets / "made/again"
    first = prepare([source], out, shards=5, scratch=tmp_path)
    with pytest.raises(InputError, match=r"again/.* The new data set is complete\. Remove"):
        prepare([source], out, seed=1, shards=2, scratch=tmp_path)
    index = load_index(made)
    assert not set(index.files) & set(first.files)
    assert inspect(made)["measurements"] == index.train.measurements + index.eval.measurements


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "OUT"],
        ["throughput", "--data", "OUT"],
        ["generate", "--out", "OUT"],
        ["prepare", "OUT", "--out", "made", "--scratch", "OUT"],
    ],
)
def test_a_bucket_where_a_local_folder_is_needed(endpoint: str, words: list[str]) -> None:
    """The command says so before it does anything."""
    place = uri(endpoint, "made/rows")
    result = CliRunner().invoke(main, [word.replace("OUT", place) for word in words])
    assert result.exit_code == 2
    assert "the path must be a local one: copy what a URI names, or mount" in result.output


def test_a_killed_upload_goes_on(buckets: Path, endpoint: str, tmp_path: Path) -> None:
    """The index is the last file, and nothing else is left after it."""
    script, made, scratch = (
        tmp_path / "script.py",
        buckets / "made" / "killed",
        tmp_path / "scratch",
    )
    script.write_text(_KILLED)
    scratch.mkdir()
    places = [uri(endpoint, "measured"), uri(endpoint, "made/killed")]
    killed = subprocess.run([sys.executable, str(script), *places, str(scratch)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(made.glob("*.arrayrecord"))) == 2
    assert not (made / "index.json").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netpipe.workload.preparation.plan.SLICE_ROWS", 2000)
        patch.setattr("netpipe.workload.preparation.prepare.run_here", None)  # Nothing is left.
        index = prepare([places[0]], places[1], scratch=scratch)
    assert files_in(made) == sorted(["index.json", *map(str, index.files)])
    assert not [path for path in scratch.iterdir() if WORK_NAME.fullmatch(path.name)]


@pytest.mark.parametrize("fault", ["secret", "bucket", "server"])
def test_what_cannot_be_reached_is_one_line(endpoint: str, tmp_path: Path, fault: str) -> None:
    """The error names the URI without the password, what the server said, and a way out."""
    if fault == "server":
        endpoint = f"127.0.0.1:{find_free_ports(1)[0]}"
    bucket = "absent" if fault == "bucket" else "measured"
    place = uri(endpoint, f"{bucket}/days", "wrong" if fault == "secret" else SECRET)
    result = CliRunner().invoke(main, ["prepare", place, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    [line] = [line for line in result.output.splitlines() if line.startswith("netpipe:")]
    assert f"s3://{bucket}/days?" in line
    assert SECRET not in line
    assert list(tmp_path.iterdir()) == []
