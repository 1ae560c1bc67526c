"""The endurance study."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from netpipe.workload.preparation.synthetic import generate
from perf_tests.studies.endurance.__main__ import main
from perf_tests.studies.endurance.watching import MIN_LOOKS, Held, compute_growths, watch

FLAT = [
    Held(5.0 * n, 80.0, 300_000_000 + n % 7, 200_000_000, 40, 3, 800_000) for n in range(1, 121)
]


def test_flat_is_flat() -> None:
    """Quantities that stay about the same have not grown."""
    assert {growth.is_flat for growth in compute_growths(FLAT)} == {True}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("own_bytes", 100_000),
        ("open_files", 1),
        ("shared_memory_files", 1),
        ("shared_memory_bytes", 100_000),
    ],
)
def test_a_leak_is_seen(name: str, step: int) -> None:
    """A quantity that rises at every reading is named, and no other."""
    leaking = [
        replace(moment, **{name: getattr(moment, name) + step * number})
        for number, moment in enumerate(FLAT)
    ]
    assert [growth.name for growth in compute_growths(leaking) if not growth.is_flat] == [name]


def test_the_start_is_no_growth() -> None:
    """Buffers may fill up in the first tenth of the time."""
    filling = [replace(moment, own_bytes=1) for moment in FLAT[:12]] + FLAT[12:]
    assert {growth.is_flat for growth in compute_growths(filling)} == {True}


def test_a_loader_is_watched_and_closed() -> None:
    """The loader is pulled until there are enough readings, then closed."""
    closed = []

    class Endless:
        def __iter__(self) -> "Endless":
            return self

        def __next__(self) -> int:
            return 0

        def close(self) -> None:
            closed.append(True)

    held = list(watch(Endless(), 0.001, 0.001))
    assert len(held) == MIN_LOOKS
    assert all(moment.pss_bytes > moment.own_bytes > 0 < moment.open_files for moment in held)
    assert [moment.elapsed_s for moment in held] == sorted(moment.elapsed_s for moment in held)
    assert closed == [True]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command pulls the pipeline, prints the quantities before and after, and draws them."""
    generate(tmp_path / "data", probes=40)
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path / "data"))
    svg = tmp_path / "held.svg"
    words = ["--minutes", "0.01", "--workers", "0", "--batch-size", "2", "--svg", str(svg)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code in (0, 1), result.output
    for name in ("own_bytes", "open_files", "shared_memory_files", "shared_memory_bytes"):
        assert name in result.output
    assert "2 x 1024, 0 workers" in svg.read_text()
