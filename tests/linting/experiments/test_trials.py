"""Fixes tried: the messages for faster, slower, equal and failed ones, alone and together."""

import re
from dataclasses import replace
from typing import Any

import grain
import pytest

from netpipe.grain_access.dataset_variants import Variant
from netpipe.grain_access.reader import read_graph
from netpipe.linting.experiments.fixes import Fix
from netpipe.linting.experiments.trials import Trial, apply_trials, evaluate, try_fixes
from netpipe.linting.experiments.variant_comparison import ElementBlock, Pace, VariantBlocks
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.results.measurement import Interval
from tests.fakes import FakeClock

FIX = Fix("threads-in-workers", "no threads", Variant(read_threads=0))


def blocks(*times_s: float, elements: float = 4.0) -> tuple[ElementBlock, ...]:
    """Blocks of some seconds per element, half of them CPU time."""
    return tuple(ElementBlock(time_s, time_s / 2, elements) for time_s in times_s)


def message(before: tuple[ElementBlock, ...], after: tuple[ElementBlock, ...]) -> str:
    """The message about a fix."""
    return evaluate(FIX, VariantBlocks(before, after)).message


def test_a_faster_pipeline() -> None:
    """The ratio comes with its interval, times per batch, and the CPU time of a batch."""
    trial = evaluate(FIX, VariantBlocks(blocks(0.010, 0.011, 0.010), blocks(0.002, 0.002, 0.002)))
    assert trial.ratio is not None
    assert trial.message == (
        f"5 times as fast ({trial.ratio.low:.3g} to {trial.ratio.high:.3g}):"
        " 8 ms instead of 40 ms per batch, and 4 ms of CPU time instead of 20 ms"
    )
    assert (trial.rule, trial.change) == ("threads-in-workers", "no threads")
    assert trial.before_s_per_batch == pytest.approx(0.040)
    assert trial.after_s_per_batch == pytest.approx(0.008)
    assert trial.before_cpu_s_per_batch == pytest.approx(0.020)
    assert trial.after_cpu_s_per_batch == pytest.approx(0.004)
    assert trial.ratio is not None
    assert trial.ratio.n == 3


@pytest.mark.parametrize(
    ("after_s", "seen"),
    [
        ((0.02, 0.02, 0.02), r"slower, 0\.5 .* \(0\.5 to 0\.5\): 80 ms .* 40 ms"),
        ((0.009, 0.0105, 0.01), "no clear difference, 1 times"),
    ],
)
def test_a_pipeline_that_is_not_faster(after_s: tuple[float, ...], seen: str) -> None:
    """A change for the worse is called slower; a ratio whose interval includes 1 is unclear."""
    assert re.match(seen, message(blocks(0.01, 0.01, 0.01), blocks(*after_s)))


@pytest.mark.parametrize(("rounds", "name"), [(1, "one alternation"), (2, "2 alternations")])
def test_too_few_rounds(rounds: int, name: str) -> None:
    """Without an interval nothing is decided, and there is no ratio."""
    trial = evaluate(FIX, VariantBlocks(blocks(*[0.02] * rounds), blocks(*[0.01] * rounds)))
    assert re.match(f"not decided, 2 times .* {name} .*: 40 ms", trial.message)
    assert trial.ratio is None
    assert trial.before_s_per_batch == pytest.approx(0.08)


def test_the_way_of_measuring_is_named() -> None:
    """A step, and whole epochs, are named where they were the measure."""
    pace = Pace(1.0, step_s=0.007, from_start=True)
    trial = evaluate(FIX, VariantBlocks(blocks(0.02), blocks(0.01), pace=pace))
    assert re.match(r".* step .* \(7 ms\), .* epochs", trial.message)


def test_rounds_are_paired_and_compared_by_elements() -> None:
    """Neither a machine that becomes slower nor another batch size affects the ratio."""
    trial = evaluate(FIX, VariantBlocks(blocks(0.01, 0.02, 0.04), blocks(0.005, 0.01, 0.02)))
    assert trial.ratio == Interval(2.0, 2.0, 2.0, 3)
    trial = evaluate(
        FIX, VariantBlocks(blocks(*[0.01] * 3, elements=8.0), blocks(*[0.005] * 3, elements=2.0))
    )
    assert (trial.before_s_per_batch, trial.after_s_per_batch) == (0.08, 0.04)


def test_a_side_that_failed_has_no_figures() -> None:
    """The message is the reason."""
    trial = evaluate(FIX, VariantBlocks(blocks(0.01), blocks(0.01), "ValueError: broken"))
    assert trial == Trial(FIX.rule, FIX.change, trial.message)
    assert trial.message == "not measured: ValueError: broken"


# ---- A pipeline's fixes

THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=7)


def factory() -> Any:
    """A pipeline that reads with threads, and prefetches nothing."""
    return grain.MapDataset.source(range(8)).to_iter_dataset(THREADS).batch(4)


def report(*rules: str, loader: LoaderFactory = factory) -> LintReport:
    """A report with a warning of each rule on a pipeline."""
    found = tuple(LintFinding(rule, "warning", (), "", "") for rule in rules)
    return LintReport("throughput", "0.2.18", read_graph(loader()), found)


class Speeds:
    """A machine on which a pipeline's speed depends on its settings alone."""

    def __init__(self, clock: FakeClock, **factors: float) -> None:
        self._clock = clock
        self._factors = factors

    def __call__(self, loader: LoaderFactory, _: Pace) -> ElementBlock:
        """Take a tenth of a second, and return the time that the graph makes."""
        self._clock.sleep(0.1)
        graph = read_graph(loader())
        (reader,) = graph.of_kind("ToIter")
        seen = {
            "calm": reader.parameters["num_threads"] == 0,
            "thread": bool(graph.of_kind("ThreadPrefetch")),
            "workers": bool(graph.of_kind("ProcessPrefetch")),
        }
        time_s = 0.01
        for name, factor in self._factors.items():
            time_s /= factor if seen[name] else 1.0
        return ElementBlock(time_s, time_s, 4.0)


RULES = ("threads-in-workers", "no-prefetch")


def test_each_fix_is_tried_and_then_the_best_together(clock: FakeClock) -> None:
    """The better of two fixes for one rule is joined with the fixes of other rules."""
    speeds = Speeds(clock, calm=2.0, thread=1.5, workers=3.0)
    trials = try_fixes(factory, report(*RULES), 2, clock, 60.0, measure=speeds)
    assert [trial.rule for trial in trials] == [*RULES, "no-prefetch", "all"]
    assert [trial.ratio and round(trial.ratio.median, 6) for trial in trials] == [
        2.0,
        1.5,
        3.0,
        6.0,
    ]
    assert trials[-1].change == f"{trials[0].change}; {trials[2].change}"
    assert clock() < 60.0


def test_a_slower_fix_is_not_joined(clock: FakeClock) -> None:
    """A fix that was slower alone is dropped, and a single fix is not tried again."""
    speeds = Speeds(clock, calm=0.5, thread=1.5, workers=0.5)
    trials = try_fixes(factory, report(*RULES), 2, clock, 60.0, measure=speeds)
    assert trials[0].message.startswith("slower")
    assert [trial.rule for trial in trials] == [*RULES, "no-prefetch"]


@pytest.mark.parametrize(("calm", "severity"), [(0.1, "info"), (3.0, "warning"), (1.0, "warning")])
def test_threads_that_a_source_needs_are_no_warning(
    clock: FakeClock, calm: float, severity: str
) -> None:
    """The trial decides: where reading waits, threads are faster, and the warning is withdrawn."""
    found = report("threads-in-training-process")
    trials = try_fixes(factory, found, 2, clock, 60.0, measure=Speeds(clock, calm=calm))
    (finding,) = apply_trials(found, trials).findings
    assert finding.severity == severity
    assert ("not here" in finding.proof) is (severity == "info")


def test_one_proposal_that_is_not_slower_keeps_the_warning(clock: FakeClock) -> None:
    """One of two proposals for a rule is enough, and an error stays one at any speed."""
    found = report("no-prefetch", "too-many-workers")
    wrong = replace(found, findings=tuple(replace(f, severity="error") for f in found.findings))
    speeds = Speeds(clock, thread=1.5, workers=0.5)
    trials = try_fixes(factory, report("no-prefetch"), 2, clock, 60.0, measure=speeds)
    assert apply_trials(found, trials) == found
    assert apply_trials(wrong, trials[1:]) == wrong


def test_a_fix_that_cannot_be_tried_is_listed(clock: FakeClock) -> None:
    """A fix without a variant is not measured; rules without a fix are not listed."""
    assert try_fixes(factory, report("shuffle-after-batch"), 2, clock, 60.0) == ()

    def put() -> Any:
        return factory().mp_prefetch(grain.MultiprocessingOptions(2)).map(device_put)

    found = report("map-after-mp-prefetch", "threads-in-workers", loader=put)
    moved, calm = try_fixes(put, found, 2, clock, 60.0, measure=Speeds(clock, calm=2.0))
    assert moved.message.startswith("cannot be tried: ")
    assert "on a device" in moved.message
    assert calm.ratio is not None
    alone = report("map-after-mp-prefetch", loader=put)
    assert try_fixes(put, alone, 2, clock, 60.0) == (moved,)


def device_put(element: Any) -> Any:
    """Put an element on a device."""
    import jax

    return jax.device_put(element)


def test_two_rules_with_one_fix(clock: FakeClock) -> None:
    """The same variant is measured once and reported for both."""

    def late() -> Any:
        loaded = grain.MapDataset.source(range(8)).to_iter_dataset(THREADS)
        return loaded.mp_prefetch(grain.MultiprocessingOptions(2)).map(abs).batch(4)

    found = report("batch-after-mp-prefetch", "map-after-mp-prefetch", loader=late)
    batch, mapped = try_fixes(late, found, 2, clock, 60.0, measure=Speeds(clock))
    assert batch.message == mapped.message
    assert batch.ratio == Interval(1.0, 1.0, 1.0, 6)


@pytest.mark.parametrize("start_s", [0.5, 2.0, 6.0, 11.0, 30.0])
def test_trials_end_with_their_budget(clock: FakeClock, start_s: float) -> None:
    """However slowly the pipeline starts, at most one block is running when the time is up."""
    speeds = Speeds(clock, calm=2.0, thread=1.5)

    def slow(loader: LoaderFactory, pace: Pace) -> ElementBlock:
        clock.sleep(start_s)
        return speeds(loader, pace)

    found = report("no-prefetch", "threads-in-workers", "oversized-read-buffer", "no-workers")
    trials = try_fixes(factory, found, 2, clock, 25.0, measure=slow)
    assert clock() <= 25.0 + start_s + 0.2
    measured = [trial.before_s_per_batch is not None for trial in trials]
    assert measured[0] is (start_s < 12.0)
    assert all(
        done or "time" in trial.message for done, trial in zip(measured, trials, strict=True)
    )


class Ticking:
    """A source whose elements take 10 ms each."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def __len__(self) -> int:
        """Return the number of elements."""
        return 8

    def __getitem__(self, index: int) -> int:
        """Advance the clock."""
        self._clock.sleep(0.01)
        return index


def test_a_loader_is_pulled(clock: FakeClock) -> None:
    """Without a measuring function the loader itself is pulled and timed, before and after."""

    def loader() -> Any:
        return grain.MapDataset.source(Ticking(clock)).repeat().to_iter_dataset(THREADS).batch(4)

    (trial,) = try_fixes(loader, report("threads-in-workers"), 2, clock, 60.0)
    assert trial.after_s_per_batch == pytest.approx(0.04, rel=0.5)
    assert "instead of" in trial.message
