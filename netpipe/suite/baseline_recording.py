"""Writing a run as a baseline: only when every test passed and every verdict was good."""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from netpipe.errors import InputError, NetpipeError
from netpipe.gate import baseline
from netpipe.gate.history import read_entries
from netpipe.results.measurement import Measurement
from netpipe.suite import benchmark_replay
from netpipe.suite.run import Run
from netpipe.verdict.decision import judge

Sessions = tuple[Measurement, ...]


class NotRecordedError(NetpipeError):
    """A run cannot be recorded as a baseline."""


def record_baselines(run: Run, config: pytest.Config, exitstatus: int) -> str:
    """Write one baseline for each device key that was measured; return a note of the files.

    Raises:
        NotRecordedError: The run cannot be a baseline, or a file cannot be written.
    """
    reason = _why_not(run, exitstatus)
    if reason is not None:
        raise NotRecordedError(f"no baseline was recorded: {reason}")
    written: list[str] = []
    refused: list[str] = []
    for key, benchmarks in _by_device(run).items():
        folder = run.options.baselines / key
        document = benchmark_replay.document(config, benchmarks)
        sessions = {**benchmarks, **_removed_benchmarks(run, config, folder)}
        # A folder that cannot be written to must not lose the other devices' baselines.
        try:
            path = baseline.save(folder, run.options.record, document, sessions)
        except InputError as error:
            refused.append(f"no baseline was recorded: {error}")
        else:
            written.append(f"recorded {path}")
    note = "; ".join([*refused, *written])
    if refused:
        raise NotRecordedError(note)
    return note


def _why_not(run: Run, exitstatus: int) -> str | None:
    if exitstatus != pytest.ExitCode.OK:
        return "a test failed"
    if not run.recorded:
        return "no benchmark ran"
    for sessions in run.sessions.values():
        for session in sessions:
            verdict = judge(session)
            if not verdict.passes(session):
                return f"a session on {session.device.key} was {verdict.message}"
    return None


def _by_device(run: Run) -> dict[str, dict[str, Sessions]]:
    devices: dict[str, dict[str, Sessions]] = defaultdict(dict)
    for name, sessions in run.recorded.items():
        devices[sessions[0].device.key][name] = sessions
    return devices


def _removed_benchmarks(run: Run, config: pytest.Config, folder: Path) -> dict[str, Sessions]:
    """Return the benchmarks of a device whose test was removed, each without a session.

    Benchmarks that this run did not collect, of an ignored file for instance, are kept.
    """

    def is_removed(benchmark: str) -> bool:
        file = benchmark.partition("::")[0]
        is_collected = any(name.startswith(f"{file}::") for name in run.timed | run.deselected)
        is_certain = is_collected or not (config.rootpath / file).exists()
        return run.is_removed(benchmark) and is_certain

    with suppress(InputError):  # Saving reports it, and keeps the recording elsewhere.
        earlier = [entry.baseline for entry in read_entries(folder) if entry.baseline]
        return {name: () for name in baseline.find_holders(earlier) if is_removed(name)}
    return {}
