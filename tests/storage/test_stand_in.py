"""A wrapped source: its results, its times on a virtual clock, and its attributes."""

import copy
import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.grain_access.nodes import qualified_name
from netpipe.storage import stand_in
from netpipe.storage.stand_in import StandIn, count_bytes, place
from tests.fakes import FakeClock
from tests.storage.sources import GrainRows, Rows, TorchRows

PLAIN = "network-disk,latency=1s,tail=0s,bandwidth=1000GB/s,rate=100000/s"


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], float]:
    """Return a function that returns how long another one takes in virtual time."""
    clock = FakeClock()
    fake_time = SimpleNamespace(monotonic=clock, sleep=clock.sleep)
    monkeypatch.setattr(sys.modules[StandIn.__module__], "time", fake_time)

    def seconds(run: Callable[[], Any]) -> float:
        began_s = clock()
        run()
        return clock() - began_s

    return seconds


Timed = Callable[[Callable[[], Any]], float]


def test_a_read_takes_its_time(timed: Timed) -> None:
    """Records are unchanged, and each read takes the latency plus the time of its bytes."""
    rows = stand_in(Rows(), f"{PLAIN},connection=8kB/s")
    assert timed(lambda: rows[3]) == pytest.approx(2.0, rel=0.05)
    assert (rows[3] == Rows()[3]).all()


def test_the_local_read_comes_on_top(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local cost of a read, such as decoding, is added."""
    clock = sys.modules[StandIn.__module__].time
    monkeypatch.setattr(Rows, "__getitem__", lambda *_: clock.sleep(0.5))
    rows = stand_in(Rows(), PLAIN)
    assert timed(lambda: rows[3]) == pytest.approx(1.5)


@pytest.mark.parametrize(
    "read",
    [
        lambda: stand_in(TorchRows(), PLAIN).__getitems__(range(10)),
        lambda: stand_in(GrainRows(), PLAIN)._getitems(range(10)),
    ],
)
def test_several_at_once_are_requested_together(timed: Timed, read: Callable[[], Any]) -> None:
    """Ten records in one call take one latency."""
    assert timed(read) == pytest.approx(1.0, rel=0.01)


def test_only_what_a_source_offers_is_offered() -> None:
    """A source that reads one element at a time still does so in a storage."""
    offers = [
        (hasattr(rows, "__getitems__"), hasattr(rows, "_getitems"))
        for source in (Rows(), TorchRows(), GrainRows())
        if (rows := stand_in(source, PLAIN))
    ]
    assert offers == [(False, False), (True, False), (False, True)]


def test_each_of_several_is_a_read(timed: Timed) -> None:
    """Records that are requested together share the limits."""
    rows = stand_in(TorchRows(), f"{PLAIN},concurrent=2")
    assert timed(lambda: rows.__getitems__(range(10))) == pytest.approx(5.0, rel=0.001)
    assert timed(lambda: rows.__getitems__([])) == 0.0


def test_slices_and_keys_are_reads(timed: Timed) -> None:
    """A slice counts as several reads, and any other key as one."""
    records = SimpleNamespace(__getitem__=str)

    class Keyed(Rows):
        def __getitem__(self, index: Any) -> Any:
            return records

    rows = stand_in(Keyed(), f"{PLAIN},concurrent=1")
    assert timed(lambda: rows[10:14]) == pytest.approx(4.0)
    assert timed(lambda: rows["four"]) == pytest.approx(1.0)
    assert timed(lambda: rows[np.int64(4)]) == pytest.approx(1.0)
    assert timed(lambda: rows[np.array(4)]) == pytest.approx(1.0)
    assert timed(lambda: rows[np.arange(3)]) == pytest.approx(3.0)


def test_a_cached_record_is_there_at_once(timed: Timed) -> None:
    """The second read of a record takes no time, whatever type its number has."""
    rows = stand_in(Rows(), f"{PLAIN},cache=1GB")
    assert timed(lambda: rows[3]) == pytest.approx(1.0)
    assert timed(lambda: rows[np.int64(3)]) == 0.0


def test_sources_do_not_share_records_of_a_cache(timed: Timed) -> None:
    """Record 3 of another source is a different record; a rebuilt source is the same one."""
    for expected_s in (1.0, 0.0):
        rows, others = place(lambda: (stand_in(Rows()), stand_in(Rows())), f"{PLAIN},cache=1GB")()
        assert timed(lambda: rows[3]) == pytest.approx(expected_s)  # noqa: B023  # called at once
        assert timed(lambda: others[3]) == pytest.approx(expected_s)  # noqa: B023  # called at once


def test_a_failed_read_is_repeated(timed: Timed) -> None:
    """Each attempt takes its latency; without a backoff the next one follows at once."""
    rows = stand_in(Rows(), f"{PLAIN},failures=0.5")
    took_s = [timed(lambda: rows[3]) for _ in range(40)]
    assert min(took_s) == pytest.approx(1.0, rel=0.001)
    assert max(took_s) >= 3.0
    assert took_s == pytest.approx([round(each_s) for each_s in took_s], rel=0.001)


def test_refused_reads_are_repeated(timed: Timed) -> None:
    """Reads beyond the rate are repeated after their backoff until all succeed."""
    rows = stand_in(TorchRows(), f"{PLAIN},rate=100/s,retry=1s")
    took_s = timed(lambda: rows.__getitems__(range(100)))
    assert 2.0 <= took_s <= 20.0


def test_without_a_storage_the_source_itself_is_returned() -> None:
    """A loader may keep the call of `stand_in` permanently."""
    rows = Rows()
    assert stand_in(rows) is rows


def test_the_storage_of_the_command_line_comes_first() -> None:
    """`--storage` overrides the storage that the loader names, whether wrapped or not."""
    plain_and_wrapped = (Rows(), stand_in(Rows(), "local-nvme"))
    loader = place(
        lambda: [stand_in(rows, "object-store") for rows in plain_and_wrapped], "network-disk"
    )
    for moved in loader():
        assert repr(moved).endswith(" in network-disk")
        assert type(moved._source) is Rows


def test_it_has_the_attributes_of_its_source() -> None:
    """All attributes of the source are visible, and a diagnosis names the source."""
    rows = stand_in(Rows(7), PLAIN)
    assert (rows.first, rows.named(2), len(rows)) == (7, "row 2", 100)
    assert bool(stand_in(object(), PLAIN))
    assert not stand_in([], PLAIN)
    assert qualified_name(rows) == "tests.storage.sources.Rows"
    with pytest.raises(AttributeError, match="missing"):
        rows.missing  # noqa: B018  # what is tested
    with pytest.raises(MisuseError, match="storage must be one of"):
        stand_in(Rows(), "bucket")


def test_further_methods_can_read(timed: Timed) -> None:
    """A method that `reads` names takes as long as a read."""
    rows = stand_in(Rows(), PLAIN, reads=["named"])
    assert timed(lambda: rows.named(2)) == pytest.approx(1.0)
    assert rows.named(2) == "row 2"


@pytest.mark.parametrize("reads", ["named", ["nmaed"]])
def test_a_method_that_does_not_exist_is_refused(reads: Any) -> None:
    """Its reads would take no time; a text is a sequence of such names."""
    with pytest.raises(MisuseError, match="reads must be a list of methods of the source; found"):
        stand_in(Rows(), PLAIN, reads=reads)


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("source", [Rows, TorchRows, GrainRows])
def test_a_copy_is_in_the_same_storage(
    source: type[Rows], duplicate: Callable[[StandIn], StandIn]
) -> None:
    """A copied or pickled source has the limits of the original."""
    rows = stand_in(source(5), f"{PLAIN},concurrent=1")
    copies = [duplicate(rows), pickle.loads(pickle.dumps(rows))]
    starts = [each._service.request(0, 0.0)[0] for each in (rows, *copies)]
    assert starts == [1.0, 2.0, 3.0]
    assert [each.first for each in copies] == [5, 5]


@pytest.mark.parametrize(
    ("record", "size"),
    [
        (b"x" * 3000, 3000),
        ("x" * 3000, 3000),
        (np.zeros(1000), 8000),
        ({"image": np.zeros((30, 30, 3), np.uint8), "label": 3}, 2700),
        ([np.zeros(500)] * 4, 4000),
        ([np.zeros(500) for _ in range(4)], 16000),
        (SimpleNamespace(tokens=np.zeros(1000, np.int32)), 4000),
    ],
)
def test_a_record_has_the_bytes_of_its_arrays_and_strings(record: Any, size: int) -> None:
    """The size is that of the content, plus at most some hundred bytes of description."""
    assert size <= count_bytes(record) <= size + 600


def test_a_record_that_cannot_be_pickled_has_a_size() -> None:
    """A record that cannot be pickled does not make the read fail."""
    assert count_bytes({"file": lambda: 3}) > 0
    loop: list[Any] = []
    loop.append(loop)
    assert count_bytes(loop) < 600
