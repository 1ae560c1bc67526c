"""The fixtures that projects override or tests request, and the activation of the plugin."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pytest

from netpipe.clock import RecordedClock
from netpipe.errors import InconclusiveError
from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import UNJUDGED, Outcome
from netpipe.jobs.request import REQUEST_VARIABLE
from netpipe.plugin import other_plugins
from netpipe.printable import make_loggable
from netpipe.results.measurement import Measurement

# Every pytest run loads this module, and most runs do not need these imports.
if TYPE_CHECKING:
    from netpipe.plugin.gate_results import GateResult
    from netpipe.plugin.run import Run
    from netpipe.plugin.session_nodes import Subject
    from netpipe.resuming.checking import ResumeReport
    from netpipe.testing import CountedWork, Limits

RUN: Final = pytest.StashKey["Run"]()
"""The key of the run in a config's stash; pytest-xdist workers and sessions have no run."""

UNUSED: Final = pytest.StashKey[bool]()
"""The key of a flag: a test requested `netpipe_benchmark` but has not benchmarked anything yet."""


def activate(config: pytest.Config) -> None:
    """Register the run plugin, or in a session's process the session plugin, if it is missing."""
    is_session = bool(os.environ.get(REQUEST_VARIABLE))
    name = "netpipe.plugin.session_plugin" if is_session else "netpipe.plugin.run_plugin"
    if not config.pluginmanager.has_plugin(name):
        # The import is slow, and most pytest runs need neither plugin.
        config.pluginmanager.register(import_module(name), name)


def run_of(config: pytest.Config) -> "Run":
    """Return the run; activate the plugin if this is its first use.

    Raises:
        pytest.fail.Exception: This is a pytest-xdist worker, which has no run.
    """
    if other_plugins.is_worker(config):
        raise make_failure(
            "a timed test must run alone, not in a pytest-xdist worker: take netpipe's fixtures "
            "as arguments, which keeps a test out of workers, or run it with -n0"
        )
    activate(config)
    return config.stash[RUN]


def make_failure(message: str) -> BaseException:
    """Return a pytest failure without a traceback."""
    return pytest.fail.Exception(make_loggable(message), pytrace=False)


def requests(item: pytest.Item, fixture: str) -> bool:
    """Return whether a test requests a fixture itself, by a marker or through another fixture."""
    return fixture in getattr(item, "fixturenames", ())


is_benchmark = partial(requests, fixture="netpipe_benchmark")
is_timed = partial(requests, fixture="netpipe_accelerator")


def is_compared(item: pytest.Item) -> bool:
    """Return whether a run that compares would compare this test."""
    return is_benchmark(item) or requests(item, "netpipe_work")


def _require_argument(run: "Run", item: pytest.Item) -> None:
    """Fail a test that is compared but did not say so when the baselines were looked up."""
    if run.gate.compares and not is_compared(item):
        raise make_failure(
            "a test that is compared must take netpipe_benchmark or netpipe_work as an argument, "
            "or name it in pytest.mark.usefixtures"
        )


@pytest.fixture
def netpipe_loader() -> Callable[[], Any]:
    """Override this with a fixture that returns a loader factory."""
    raise pytest.UsageError(
        "override the fixture netpipe_loader in a conftest.py: it returns a callable without "
        "arguments that returns an iterable of batches"
    )


@pytest.fixture
def netpipe_step() -> Callable[[], Any] | None:
    """Override this with a fixture that returns a step factory; emulated devices need none."""
    return None


@pytest.fixture
def netpipe_loop() -> Callable[..., object] | None:
    """Override this with a fixture that returns your training loop; netpipe's is the default."""
    return None


@pytest.fixture
def netpipe_synthetic() -> Callable[[], Any] | None:
    """Override this to return a factory of at least two random batches to time the step on."""
    return None


@pytest.fixture
def netpipe_fingerprint() -> str:
    """Override this to name data and configuration; only runs with equal names are compared."""
    return ""


@pytest.fixture
def netpipe_flops_per_step() -> float | Callable[[], float] | None:
    """Override this with the FLOPs of a step, for MFU and for accelerators like emulated:h100."""
    return None


@pytest.fixture
def netpipe_accelerator(request: pytest.FixtureRequest) -> str:
    """Return the accelerator that this test is measured on: "auto" or an emulated one."""
    from netpipe.plugin import session_nodes

    chosen = getattr(request, "param", None) or session_nodes.marked_accelerator(request.node)
    return chosen or run_of(request.config).options.accelerators[0]


@pytest.fixture
def netpipe_limits(request: pytest.FixtureRequest) -> "Limits":
    """Return the limits set by the `netpipe` markers of this test."""
    from netpipe.testing import Limits

    chosen: dict[str, float] = {}
    for marker in reversed(list(request.node.iter_markers("netpipe"))):
        chosen.update({key: value for key, value in marker.kwargs.items() if key != "accelerator"})
    return Limits(**chosen)


@pytest.fixture
def _netpipe_subject(request: pytest.FixtureRequest, netpipe_accelerator: str) -> "Subject":
    from netpipe.plugin import session_nodes

    return session_nodes.Subject(
        key=session_nodes.subject_key(request),
        accelerator=netpipe_accelerator,
        command=session_nodes.node_command(request.config, request.node.nodeid),
        name=request.node.nodeid,
    )


@pytest.fixture
def netpipe_measurement(request: pytest.FixtureRequest, _netpipe_subject: "Subject") -> Measurement:
    """Return a session's measurement of `netpipe_loader`, `netpipe_step` and `netpipe_loop`.

    Tests with the same fixtures and the same accelerator share one measurement.
    """
    # The gate's further sessions are not confirmed if their verdict is bad.
    measured = run_of(request.config).measurer.measure(_netpipe_subject)[0]
    _add_verdict_properties(request.node, measured)
    return measured


def _add_verdict_properties(node: pytest.Item, measured: Measurement) -> None:
    from netpipe.verdict.decision import judge

    verdict = judge(measured)
    node.user_properties += [
        ("netpipe_device", measured.device.key),
        ("netpipe_verdict", verdict.kind),
        ("netpipe_verdict_message", verdict.message),
        *[("netpipe_storage", measured.storage)] * bool(measured.storage),
    ]


@pytest.fixture
def netpipe_work(request: pytest.FixtureRequest, _netpipe_subject: "Subject") -> "CountedWork":
    """Return exact counts of the work that `netpipe_loader` and `netpipe_step` do per batch."""
    from netpipe.testing import CountedWork

    run, test = run_of(request.config), request.node.nodeid
    profile = run.measurer.count_work(test, _netpipe_subject)

    def compare() -> None:
        __tracebackhide__ = True
        _require_argument(run, request.node)
        if run.gate.compares:
            results = run.gate.decide_work(test, _netpipe_subject)
            _report(run, request.node, results)

    return CountedWork(profile, compare)


@pytest.fixture
def netpipe_lint(request: pytest.FixtureRequest, _netpipe_subject: "Subject") -> dict[str, Any]:
    """Return the `netpipe.lint/1` document of `netpipe_loader`."""
    return run_of(request.config).measurer.lint(_netpipe_subject)


@pytest.fixture
def netpipe_resume(request: pytest.FixtureRequest, _netpipe_subject: "Subject") -> "ResumeReport":
    """Return a report on resuming `netpipe_loader` from saved states, in fresh processes."""
    return run_of(request.config).measurer.check_resume(_netpipe_subject)


@pytest.fixture
def _netpipe_clock(request: pytest.FixtureRequest) -> RecordedClock:
    """Return a clock, set as pytest-benchmark's timer before `benchmark` is set up."""
    clock = RecordedClock()
    request.node.add_marker(pytest.mark.benchmark(timer=clock, group="netpipe"))
    return clock


@pytest.fixture
def netpipe_benchmark(
    request: pytest.FixtureRequest,
    _netpipe_clock: RecordedClock,
    benchmark: Any,
    _netpipe_subject: "Subject",
) -> Iterator[Callable[[str], Measurement]]:
    """Yield `put(quantity)`, which makes this test the benchmark of one measured quantity.

    The quantity, for instance `load_s_per_batch`, appears in pytest-benchmark's table and is
    compared with the baseline; a regression fails the test.
    """
    run, node = run_of(request.config), request.node
    node.stash[UNUSED] = benchmark.enabled

    def put(quantity: str) -> Measurement:
        __tracebackhide__ = True
        node.stash[UNUSED] = False
        if quantity not in GATED:
            raise pytest.UsageError(
                f"netpipe_benchmark takes one of {', '.join(GATED)}; found {quantity!r}"
            )
        if not benchmark.enabled:
            raise make_failure(
                "benchmarks are disabled (--benchmark-disable): nothing was measured. Run: "
                "pytest perf_tests --benchmark-compare"
            )
        _require_argument(run, node)
        sessions = run.measurer.benchmark(node.nodeid, _netpipe_subject)
        measured = sessions[0]
        _add_verdict_properties(node, measured)
        durations_s = list(getattr(measured.rounds, quantity))
        if run.options.record:  # A recording stores one median per session.
            durations_s = [getattr(session, quantity).median for session in sessions]
        _replay_durations(benchmark, _netpipe_clock, durations_s, measured)
        if run.gate.compares:
            results = run.gate.decide(node.nodeid, quantity, _netpipe_subject)
            _report(run, node, results)
        return measured

    yield put
    # Otherwise pytest-benchmark warns of an unused fixture, even after a failed measurement.
    benchmark.skipped = True


def _replay_durations(
    benchmark: Any, clock: RecordedClock, durations_s: Sequence[float], measured: Measurement
) -> None:
    """Replay the durations to pytest-benchmark, for its table and its files."""
    from netpipe.verdict.decision import judge

    remaining = iter(durations_s)
    benchmark.extra_info.update(
        device=measured.device.key,
        verdict=judge(measured).kind,
        headroom=measured.headroom.median,
        stall_fraction=measured.stall_fraction.median,
        load_cpu_ratio=measured.load_cpu_ratio.median,
    )
    benchmark.pedantic(
        lambda: clock.advance(next(remaining, 0.0)), rounds=len(durations_s), iterations=1
    )


def _report(run: "Run", node: pytest.Item, results: "Sequence[GateResult]") -> None:
    """Fail a regression; fail, skip or pass any other result as the options require."""
    from netpipe.plugin import gate_results, session_nodes

    __tracebackhide__ = True
    worst, against = gate_results.find_worst(results), run.measurer.against
    node.user_properties += gate_results.junit_properties(worst.comparison)
    for result in results:
        if result.waiver:
            node.user_properties.append(("netpipe_waiver", result.waiver.remark))
        if result.comparison.outcome in UNJUDGED:
            node.user_properties.append(("netpipe_not_compared", result.comparison.reason))
    if worst.against and against:
        node.user_properties.append(("netpipe_against", against.commit.ref))
    has_baselines = bool(worst.device) and run.measurer.compares and not worst.against
    baselines = run.gate.baselines_of(worst.device) if has_baselines else ()
    repeat = partial(session_nodes.repeating_command, node.config, node.nodeid)
    if worst.fails:
        command = repeat(run.options.against if worst.against else "")
        raise make_failure(gate_results.render_failure(results, baselines, command))
    if against is None:
        run.gate.notes += gate_results.note_hidden_changes(results, baselines, repeat)
    message = f"{worst.outcome}: {worst.comparison.reason}"
    if worst.is_missing and run.options.fail_when_missing:
        raise make_failure(message)
    if worst.comparison.outcome is Outcome.INCONCLUSIVE:
        raise InconclusiveError(message)
