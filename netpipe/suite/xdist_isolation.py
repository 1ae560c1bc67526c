"""Timed tests beside pytest-xdist: they run alone, in this process, after its workers."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final

import pytest

IsTimed = Callable[[pytest.Item], bool]

_LEFT_OUT: Final = "netpipe_left_out"


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def select_for_process(config: pytest.Config, items: list[pytest.Item], is_timed: IsTimed) -> None:
    """Keep timed tests out of the workers, and all others out of the controlling process."""
    if is_worker(config):
        timed = [item.nodeid for item in items if is_timed(item)]
        config.workeroutput[_LEFT_OUT] = timed  # type: ignore[attr-defined]
        items[:] = [item for item in items if not is_timed(item)]
    elif config.pluginmanager.hasplugin("dsession"):
        items[:] = [item for item in items if is_timed(item)]


def find_left_out(worker: Any) -> Sequence[str]:
    """Return the ids of the timed tests that a finished worker left out."""
    found: Sequence[str] = getattr(worker, "workeroutput", {}).get(_LEFT_OUT, ())
    return found


def run_alone(session: pytest.Session, node_ids: Sequence[str]) -> None:
    """Collect the timed tests in this process and run one after the other.

    Args:
        session: The session, whose workers are done.
        node_ids: The tests that the workers left out, before any were deselected.

    Raises:
        pytest.Session.Failed: As many failed as `--maxfail` allows.
        pytest.Session.Interrupted: The run was asked to stop.
    """
    collected_by_workers = session.testscollected
    session.perform_collect([str(session.config.rootpath / one) for one in node_ids])
    session.testscollected += collected_by_workers
    for item, following in zip_longest(session.items, session.items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
