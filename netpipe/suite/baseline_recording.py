"""Writing a run as a baseline: only when every test passed and every verdict was fine."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from netpipe.errors import InputError, NetpipeError
from netpipe.gate import baseline, history
from netpipe.results.measurement import Measurement
from netpipe.suite import benchmark_replay
from netpipe.suite.run import Run
from netpipe.verdict.decision import judge

Sessions = tuple[Measurement, ...]


class NotRecordedError(NetpipeError):
    """A run that is no baseline."""


def recorded(run: Run, config: pytest.Config, exitstatus: int) -> str:
    """Write one baseline for each device key that was measured; return what was written.

    Raises:
        NotRecordedError: The run may not be a baseline, or it cannot be written.
    """
    reason = _why_not(run, exitstatus)
    if reason is not None:
        raise NotRecordedError(f"no baseline was recorded: {reason}")
    return _write(run, config)


def _why_not(run: Run, exitstatus: int) -> str | None:
    if exitstatus != pytest.ExitCode.OK:
        return "a test failed"
    if not run.recorded:
        return "no benchmark ran"
    for sessions in run.sessions.values():
        for one in sessions:
            verdict = judge(one)
            if not verdict.passes(one):
                return f"a session on {one.device.key} was {verdict.message}"
    return None


def _write(run: Run, config: pytest.Config) -> str:
    """Write what can be written: one device's folder that is not there is no other's loss."""
    written: list[str] = []
    refused: list[str] = []
    for key, part in _by_device(run.recorded).items():
        document = benchmark_replay.document(config, part)
        folder = run.options.baselines / key
        try:
            path = baseline.save(
                folder, run.options.record, document, {**part, **_gone(run, config, folder)}
            )
        except InputError as error:
            refused.append(f"no baseline was recorded: {error}")
        else:
            written.append(f"recorded {path}")
    said = "; ".join([*refused, *written])
    if refused:
        raise NotRecordedError(said)
    return said


def _gone(run: Run, config: pytest.Config, folder: Path) -> dict[str, Sessions]:
    """Return the benchmarks of a device that have no test any more, each with no session.

    Those that this run left out stay with the baseline that has them: of an ignored file, say.
    """
    with suppress(InputError):  # saving says so, and keeps the recording elsewhere
        earlier = [one.baseline for one in history.read_entries(folder) if one.baseline]
        return {name: () for name in baseline.find_holders(earlier) if _is_gone(run, config, name)}
    return {}


def _is_gone(run: Run, config: pytest.Config, benchmark: str) -> bool:
    file = benchmark.partition("::")[0]
    is_collected = any(one.startswith(f"{file}::") for one in run.timed | run.deselected)
    return run.is_gone(benchmark) and (is_collected or not (config.rootpath / file).exists())


def _by_device(recorded: Mapping[str, Sessions]) -> dict[str, dict[str, Sessions]]:
    parts: dict[str, dict[str, Sessions]] = defaultdict(dict)
    for name, sessions in recorded.items():
        parts[sessions[0].device.key][name] = sessions
    return parts
