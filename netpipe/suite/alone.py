"""Timed tests beside pytest-xdist: they run alone, in this process, once its workers are done."""

from collections.abc import Callable
from typing import Any, Final

import pytest

IsTimed = Callable[[pytest.Item], bool]

_LEFT_OUT: Final = "netpipe_left_out"


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process runs tests beside others."""
    return hasattr(config, "workerinput")


def share_out(config: pytest.Config, items: list[pytest.Item], is_timed: IsTimed) -> None:
    """Leave timed tests out of the workers, and all others out of the process above them."""
    if is_worker(config):
        others = [item for item in items if not is_timed(item)]
        config.workeroutput[_LEFT_OUT] = len(items) - len(others)  # type: ignore[attr-defined]
        items[:] = others
    elif config.pluginmanager.hasplugin("dsession"):
        items[:] = [item for item in items if is_timed(item)]


def left_out(worker: Any) -> int:
    """Return how many timed tests a worker that has ended left out."""
    return int(getattr(worker, "workeroutput", {}).get(_LEFT_OUT, 0))


def run_alone(session: pytest.Session) -> None:
    """Collect the timed tests in this process and run one after the other.

    Raises:
        pytest.Session.Failed: As many failed as `--maxfail` allows.
        pytest.Session.Interrupted: Somebody asked to stop.
    """
    collected_by_workers = session.testscollected
    session.perform_collect()
    session.testscollected += collected_by_workers
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
