"""Inputs of several slices: any number of workers, kills, and dropped rows."""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.errors import InputError, NetpipeError
from netpipe.files.temporary_folders import locked
from netpipe.workload.formats.index import load_index
from netpipe.workload.formats.places import find_place
from netpipe.workload.preparation import output_folder, phases, plan, runs, tasks
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.preparation.tasks import Advance, Task, run_here
from netpipe.workload.preparation.work_folder import WORK_NAME, work_folder
from tests.workload.factories import as_table, make_pings

SLICE_ROWS = 500


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of twenty probes each, five of which are in both, in row groups of 300."""
    folder = tmp_path_factory.mktemp("measured")
    for number in range(2):
        probes = range(15 * number, 15 * number + 20)
        tables = [as_table(make_pings(20 + 9 * probe, seed=probe), probe) for probe in probes]
        table = pa.concat_tables(tables).sort_by("event_time")
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300)
    return folder


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let slices be small, so that there are many."""
    monkeypatch.setattr(plan, "SLICE_ROWS", SLICE_ROWS)


@pytest.fixture(scope="module")
def whole(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is prepared in one go."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SLICE_ROWS", SLICE_ROWS)
        prepare([measured], out, shards=3)
    return out


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def work_folders(folder: Path) -> list[Path]:
    """The work folders in a folder."""
    return [path for path in folder.iterdir() if WORK_NAME.fullmatch(path.name)]


class StopError(Exception):
    """Ends a preparation."""


def run_some(count: int) -> Callable[[Any, Advance], None]:
    """A runner that stops after some tasks."""

    def run(some: Any, advance: Advance) -> None:
        tasks.run_here(some[:count], advance)
        raise StopError

    return run


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tasks that do something."""
    names: list[str] = []
    run = Task.run

    def note(task: Task, advance: Advance) -> None:
        names.append(task.name)
        run(task, advance)

    monkeypatch.setattr(Task, "run", note)
    return names


def test_a_refused_output_is_unchanged(measured: Path, tmp_path: Path) -> None:
    """No work folder is left in it."""
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="nothing but a data set"):
        prepare([measured], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_work_folder_that_is_gone_hides_no_error(tmp_path: Path) -> None:
    """Something may clean up the scratch folder meanwhile."""
    out = find_place(tmp_path / "out")

    def clean_up_and_stop(folder: str) -> None:
        shutil.rmtree(folder)
        raise StopError

    with pytest.raises(StopError), work_folder(tmp_path, out, "key", is_kept=True) as work:
        clean_up_and_stop(work.path)


def test_small_and_large_inputs_give_the_same_histories(
    measured: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices divide the work, not the data: both splits have the same numbers."""
    monkeypatch.setattr(plan, "SLICE_ROWS", 1 << 21)
    small, large = prepare([measured], tmp_path / "out", shards=3), load_index(whole)
    for name in ("train", "eval"):
        assert small.split(name).probes == large.split(name).probes
        assert small.split(name).measurements == large.split(name).measurements
        counts = (sorted(each.split(name).row_measurements) for each in (small, large))
        assert next(counts) == next(counts)
    assert len(large.train.shards) == 3


def test_workers_do_not_change_the_bytes(measured: Path, whole: Path, tmp_path: Path) -> None:
    """Two processes write the same files as one, and leave nothing beside them."""
    seen: list[tuple[int, int, str]] = []
    prepare(
        [measured], tmp_path / "out", shards=3, workers=2, progress=lambda *now: seen.append(now)
    )
    assert contents(tmp_path / "out") == contents(whole)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert seen == sorted(seen, key=lambda now: now[0])
    assert seen[-1][0] == seen[-1][1]
    assert list(dict.fromkeys(now[2] for now in seen)) == ["reading", "writing"]


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_tasks_does_not_matter(
    measured: Path, whole: Path, tmp_path: Path, order: int
) -> None:
    """A runner may run tasks in any order, and twice."""

    def run(some: Any, advance: Advance) -> None:
        tasks.run_here([*some[::order], some[0]], advance)

    prepare([measured], tmp_path / "out", shards=3, runner=run)
    assert contents(tmp_path / "out") == contents(whole)


@pytest.mark.parametrize("count", [1, 9])
def test_what_was_done_is_not_done_again(
    measured: Path, whole: Path, tmp_path: Path, ran: list[str], count: int
) -> None:
    """The next run does the other tasks, and removes the work folder."""
    with pytest.raises(StopError):
        prepare([measured], tmp_path / "out", shards=3, runner=run_some(count))
    assert not (tmp_path / "out").exists()
    assert len(work_folders(tmp_path)) == 1
    done = ran[:]
    ran.clear()
    prepare([measured], tmp_path / "out", shards=3)
    assert not set(done) & set(ran)
    assert contents(tmp_path / "out") == contents(whole)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_failure_at_the_end_keeps_the_work(
    measured: Path, whole: Path, tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the files cannot be put into their place, the next run does only that."""

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    out = tmp_path / "new" / "out"
    with monkeypatch.context() as patch:
        patch.setattr(output_folder, "_put_into_place", refuse)
        with pytest.raises(InputError, match=f"^{out}: .*found disk full$"):
            prepare([measured], out, shards=3)
    assert not out.exists()
    ran.clear()
    prepare([measured], out, shards=3)
    assert not ran
    assert contents(out) == contents(whole)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_kill_while_the_work_is_removed(
    measured: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """The next run uses nothing of the half of the work that is left, and removes it."""
    out = tmp_path / "out"
    if not is_new:
        out.mkdir()

    def remove_half(folder: Path, **_: object) -> None:
        for path in folder.iterdir():
            if path.suffix != ".json" and path.name != "key":
                path.unlink()
        raise StopError

    with monkeypatch.context() as patch:
        shutil = SimpleNamespace(rmtree=remove_half)
        patch.setattr("netpipe.workload.preparation.work_folder.shutil", shutil)
        with pytest.raises(StopError):
            prepare([measured], out, shards=3)
    assert work_folders(tmp_path if is_new else out)
    prepare([measured], out, shards=3)
    assert contents(out) == contents(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_work_beside_a_new_folder_goes_on(
    measured: Path, whole: Path, tmp_path: Path, ran: list[str]
) -> None:
    """It is found when the user has made the output folder after the interrupted run."""
    with pytest.raises(StopError):
        prepare([measured], tmp_path / "out", shards=3, runner=run_some(1))
    done = ran[:]
    ran.clear()
    (tmp_path / "out").mkdir()
    prepare([measured], tmp_path / "out", shards=3)
    assert not set(done) & set(ran)
    assert contents(tmp_path / "out") == contents(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_unfinished_files_of_killed_tasks(measured: Path, whole: Path, tmp_path: Path) -> None:
    """They are removed before the tasks of a phase run, and results stay."""

    def leave(folder: Path) -> None:
        (folder / "shard-000001-abc").mkdir(exist_ok=True)
        (folder / "shard-000001-abc" / "train-1.arrayrecord").touch()
        (folder / "slice-000001-0.run.0123abcd.part").touch()

    def look(tasks: Sequence[Task], advance: Advance) -> None:
        folder = Path(tasks[0].work.path)
        found = [path.name for path in folder.rglob("*") if path.is_file()]
        assert not [name for name in found if name.endswith((".part", ".arrayrecord"))]
        assert "slice-000000.json" in found
        run_here(tasks, advance)
        leave(folder)

    with pytest.raises(StopError):
        prepare([measured], tmp_path / "out", shards=3, runner=run_some(1))
    leave(*work_folders(tmp_path))
    prepare([measured], tmp_path / "out", shards=3, runner=look)
    assert contents(tmp_path / "out") == contents(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("change", ["seed", "source"])
def test_other_settings_or_sources_begin_anew(
    measured: Path, tmp_path: Path, ran: list[str], change: str
) -> None:
    """Nothing of the interrupted run is used, and the user is told."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for path in measured.iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    with pytest.raises(StopError):
        prepare([source], out, runner=run_some(2))
    done = ran[:]
    ran.clear()
    if change == "source":
        os.utime(source / "0.parquet", (1, 1))
    with pytest.warns(UserWarning, match=f"^{out}: .*starts over"):
        prepare([source], out, seed=int(change == "seed"))
    assert set(done) <= set(ran)


KILLED = f"""
import os, signal, sys
from pathlib import Path
from netpipe.workload.preparation import plan
from netpipe.workload.preparation.prepare import prepare

def kill(done, total, phase):
    if phase == "writing" and done > total * 0.6:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    plan.SLICE_ROWS = {SLICE_ROWS}
    prepare([sys.argv[1]], sys.argv[2], shards=3, workers=int(sys.argv[3]), progress=kill)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_goes_on(
    measured: Path, whole: Path, tmp_path: Path, ran: list[str], workers: int
) -> None:
    """After SIGKILL no worker is left, and the next run writes the same bytes."""
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(measured), str(out), str(workers)]
    with subprocess.Popen(command, start_new_session=True) as child:
        assert child.wait() == -signal.SIGKILL
        left = [each for each in psutil.process_iter() if _group(each) == child.pid]
        _, alive = psutil.wait_procs(left, timeout=60)
        assert alive == []
    assert not out.exists()
    prepare([measured], out, shards=3)
    assert ran or workers == 2  # Both can end before their parent looks.
    assert all(name.startswith("shard-") for name in ran)
    assert contents(out) == contents(whole)


def test_a_worker_ends_whose_parent_ended_before_it_began() -> None:
    """The worker ends by itself, because no signal comes."""
    start = (
        "from netpipe.workload.preparation.processes import _start_worker; _start_worker(None, -1)"
    )
    assert subprocess.run([sys.executable, "-c", start]).returncode == 1


def _group(process: psutil.Process) -> int:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return 0


def test_one_output_is_prepared_once_at_a_time(measured: Path, tmp_path: Path) -> None:
    """A second run is refused, and says where the first one works."""
    out = tmp_path / "out"
    with pytest.raises(StopError):
        prepare([measured], out, runner=run_some(1))
    [work] = work_folders(tmp_path)
    with (
        locked(work),
        pytest.raises(InputError, match=rf"{out}: .*one process; found another.*{work}$"),
    ):
        prepare([measured], out)
    prepare([measured], out)


def test_a_killed_worker_is_one_line(
    measured: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to do, the output is unchanged, and the same call continues."""
    out = tmp_path / "out"
    monkeypatch.setattr("netpipe.workload.preparation.processes._advance", _die_at_once)
    with pytest.raises(NetpipeError, match=r"killed.*repeat the command.*--workers"):
        prepare([measured], out, shards=3, workers=2)
    assert not out.exists()
    monkeypatch.undo()
    monkeypatch.setattr(plan, "SLICE_ROWS", SLICE_ROWS)
    prepare([measured], out, shards=3)
    assert contents(out) == contents(whole)


def test_a_lost_connection_of_a_worker_keeps_the_work(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system error keeps the work, even if another process reports it."""
    monkeypatch.setattr("netpipe.workload.preparation.processes._advance", _lose_connection)
    with pytest.raises(InputError, match="connection lost"):
        prepare([measured], tmp_path / "out", workers=2)
    assert work_folders(tmp_path)


def _lose_connection(_rows: int) -> None:
    if next(_advances) > 10:  # after the first runs
        raise find_place("a").error("be readable", OSError("connection lost")) from OSError()


_advances = count()


def _die_at_once(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _with_faults(measured: Path, folder: Path) -> Path:
    """A file whose values are invalid in four ways, in seven rows."""
    table = pq.read_table(measured / "0.parquet")
    rtt, version = table["rtt"].to_pylist(), table["ip_version"].to_pylist()
    source, probe = table["src_addr"].to_pylist(), table["prb_id"].to_pylist()
    rtt[3] = rtt[600] = float("nan")
    rtt[4], version[4] = float("inf"), 5
    source[5] = source[900] = "nowhere"
    probe[6] = probe[7] = None
    columns = {"rtt": rtt, "ip_version": version, "src_addr": source, "prb_id": probe}
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    folder.mkdir()
    pq.write_table(table, folder / "0.parquet", row_group_size=300)
    return folder


def test_invalid_values_leave_no_work_of_other_processes(measured: Path, tmp_path: Path) -> None:
    """The work folder is removed whichever process finds them."""
    source = _with_faults(measured, tmp_path / "in")
    # Each process reports the first one of its slice.
    found = r"0\.parquet: column \w+, row (6|600|900), .*found (None|nan|'nowhere')"
    with pytest.raises(InputError, match=found):
        prepare([source], tmp_path / "out", workers=2)
    assert not work_folders(tmp_path)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_dropped_rows_are_counted(measured: Path, tmp_path: Path, is_interrupted: bool) -> None:
    """Each has one reason, the first example is named, and the index keeps all of them."""
    source, out = _with_faults(measured, tmp_path / "in"), tmp_path / "out"
    if is_interrupted:
        with pytest.raises(StopError):
            prepare([source], out, drops_invalid=True, runner=run_some(3))
    index = prepare([source], out, drops_invalid=True)
    file = str(source / "0.parquet")
    found = [tuple(vars(each).values()) for each in index.dropped]
    assert found == [
        ("ip_version", "be 4 or 6", 1, file, 4, "5"),
        ("prb_id", "not be null", 2, file, 6, "None"),
        ("rtt", "be finite (negative means failed)", 2, file, 3, "nan"),
        ("src_addr", "be an IP address, or empty", 2, file, 5, "'nowhere'"),
    ]
    rows = pq.read_metadata(source / "0.parquet").num_rows
    assert index.train.measurements + index.eval.measurements == rows - 7
    assert load_index(out) == index
    with pytest.raises(InputError, match=r"0\.parquet: column prb_id, row 6, .*found None"):
        prepare([source], tmp_path / "other")
    assert not work_folders(tmp_path)


def test_the_summary_says_what_was_dropped(measured: Path, tmp_path: Path) -> None:
    """The summary has a line for each reason, with its first example."""
    source = _with_faults(measured, tmp_path / "in")
    words = ["prepare", str(source), "--out", str(tmp_path / "out"), "--workers=1"]
    result = CliRunner().invoke(main, [*words, "--drop-invalid"])
    assert result.exit_code == 0, result.output
    assert result.output.count("dropped: ") == 4
    expected = (
        f"2 rows, whose prb_id must not be null; the first is row 6 of {source}/0.parquet: None"
    )
    assert f"dropped: {expected}\n" in result.output
    assert CliRunner().invoke(main, words).exit_code == 2


def test_nothing_is_left_of_invalid_rows(tmp_path: Path) -> None:
    """If every row was dropped there is nothing to prepare."""
    table = as_table(make_pings(9, seed=0), 1)
    table = table.set_column(3, "ip_version", pa.array([5] * 9, pa.int8()))
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(InputError, match="rows must have valid values; found none"):
        prepare([tmp_path / "bad.parquet"], tmp_path / "out", drops_invalid=True)


def test_a_run_without_valid_rows_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of invalid rows fill the table, and end a run before any valid row."""
    valid = [as_table(make_pings(9, seed=probe), probe) for probe in range(2)]
    invalid = valid[0].set_column(3, "ip_version", pa.array([5] * 9, pa.int8()))
    pq.write_table(pa.concat_tables([invalid, *valid]), tmp_path / "0.parquet")
    monkeypatch.setattr(phases, "RUN_ADDRESSES", 1)
    monkeypatch.setattr("netpipe.workload.formats.parquet._BATCH_ROWS", 9)
    index = prepare([tmp_path / "0.parquet"], tmp_path / "out", drops_invalid=True)
    assert index.dropped[0].rows == 9


def test_a_row_group_larger_than_a_slice(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row group is read in parts, each of which becomes a run."""
    table = pq.read_table(measured)
    pq.write_table(table, tmp_path / "0.parquet")
    whole = prepare([tmp_path / "0.parquet"], tmp_path / "whole")
    monkeypatch.setattr("netpipe.workload.preparation.phases.SLICE_ROWS", 500)
    monkeypatch.setattr("netpipe.workload.formats.parquet._BATCH_ROWS", 200)
    parts = prepare([tmp_path / "0.parquet"], tmp_path / "parts")
    assert parts.train.probes == whole.train.probes
    assert sorted(parts.train.row_measurements) == sorted(whole.train.row_measurements)


def test_addresses_of_a_large_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with many distinct addresses ends, and the next one has none of them in memory."""
    rows, held = 900, list[int]()
    names = pa.array([f"2001:db8::{number:x}" for number in range(rows)])
    table = as_table(make_pings(rows, seed=0), 1)
    probes = pa.array([number % 3 for number in range(rows)])
    table = table.set_column(table.schema.get_field_index("prb_id"), "prb_id", probes)
    table = table.set_column(2, "dst_addr", names)
    table = table.set_column(3, "ip_version", pa.array([6] * rows, pa.int8()))
    pq.write_table(table.set_column(1, "src_addr", names), tmp_path / "0.parquet")
    monkeypatch.setattr(plan, "SLICE_ROWS", rows)
    expected = prepare([tmp_path / "0.parquet"], tmp_path / "whole")
    write_run = runs.write_run

    def note(*arguments: Any) -> None:
        held.append(len(arguments[2]))
        write_run(*arguments)

    monkeypatch.setattr(phases, "write_run", note)
    monkeypatch.setattr(phases, "RUN_ADDRESSES", 100)
    monkeypatch.setattr("netpipe.workload.formats.parquet._BATCH_ROWS", 80)
    monkeypatch.setattr("netpipe.workload.formats.parquet._MAX_DICTIONARY_BYTES", 0)
    assert prepare([tmp_path / "0.parquet"], tmp_path / "out") == expected
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(held) > 4
    assert max(held) < 200


def test_private_addresses_are_told_once(tmp_path: Path) -> None:
    """Every slice finds merged probes; the user is warned once."""
    table = as_table(make_pings(90, seed=0))
    private = pa.array(["10.0.0.1" if n % 2 else "10.0.0.2" for n in range(90)])
    table = table.set_column(1, "src_addr", private).set_column(2, "dst_addr", private)
    table = table.set_column(3, "ip_version", pa.array([4] * 90, pa.int8()))
    for number in range(8):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepare([tmp_path], tmp_path.parent / f"{tmp_path.name}-out")
    assert [str(each.message)[:20] for each in caught] == ["without a column prb"]


def test_a_probe_that_files_put_in_both_splits(measured: Path, tmp_path: Path) -> None:
    """The error names both files, even when the probe is found in other processes' runs."""
    for number, name in enumerate(("train", "eval")):
        (tmp_path / f"{name}.parquet").write_bytes((measured / f"{number}.parquet").read_bytes())
    message = r"train\.parquet: probe 1[5-9] must be in one split; found it in \S+eval\.parquet"
    with pytest.raises(InputError, match=message):
        prepare([tmp_path], tmp_path.parent / f"{tmp_path.name}-out")
