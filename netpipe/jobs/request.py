"""The request of a session, passed in the variable NETPIPE_SESSION, and its result files."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final, get_type_hints

from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import HangError, MisuseError, NoSuchTestError, SessionError
from netpipe.jobs.targets import Target

REQUEST_VARIABLE: Final = "NETPIPE_SESSION"
OVERTIME_S: Final = 10.0
"""Seconds that a measurement may exceed its budget by before it is ended."""
START_LIMIT_S: Final = 600.0
"""Default seconds until the first batch must arrive. Compilation can take minutes on a GPU."""
TYPICAL_START_S: Final = 12.0
"""Typical seconds before a session's rounds: imports, the loader's start, the step's warm-up."""
FAREWELL_S: Final = 5.0
"""Seconds that a process may take to end after it wrote its result."""

SCHEMA: Final = "netpipe.session/1"
_ERRORS: Final = {
    "misuse": MisuseError,
    "hang": HangError,
    "missing": NoSuchTestError,
    "failed": SessionError,
}

_IMPORT_S: Final = 60.0
_ALLOWED: Final[Mapping[Any, Any]] = {
    bool: bool, int: int, str: str, float: float | int, float | None: float | int | None
}  # fmt: skip


@dataclass(frozen=True)
class SessionRequest:
    """The settings of any session; a job's own settings are in a subclass.

    Attributes:
        kind: The job, a key of `netpipe.jobs.registry.JOBS`.
        targets: The targets that the process imports, by role: loader, step, loop. A test's session
            has none, because the test's fixtures make its factories.
        accelerator: "auto" or an emulated one; with the latter, jax gets no real device.
        budget_s: Seconds for the measured rounds.
        batch_limit_s: Seconds without a batch after which a loader counts as hung.
        start_limit_s: Seconds allowed until the first batch, each time the loader starts; above the
            default, also for the start-up of the step.
        code_from: The checkout whose code is run; "" for any. See `check_origin`.
        not_from: Other checkouts of the repository; no file may be loaded from them.
        parent: The process that waits for the result; None without one.
        time_left_s: Seconds that the caller has left. The parent enforces the limit and does not
            send it to the child.
        channel: The file descriptor of the pipe for the parent's orders; -1 without one.
    """

    kind: str
    targets: Mapping[str, Target] = field(default_factory=dict)
    result: str = ""
    accelerator: str = "auto"
    budget_s: float = 20.0
    batch_limit_s: float = 10.0
    start_limit_s: float = START_LIMIT_S
    code_from: str = ""
    not_from: tuple[str, ...] = ()
    parent: int | None = None
    time_left_s: float = inf
    channel: int = -1

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            is_allowed = isinstance(value := getattr(self, name), _ALLOWED.get(kind, object))
            # In Python, True is an int too.
            is_number = kind in (int, float, float | None)
            if not is_allowed or (is_number and isinstance(value, bool)):
                wanted = getattr(kind, "__name__", kind)
                raise MisuseError(f"{name} must be of type {wanted}; found {value!r}")
        parse_accelerator(self.accelerator)
        object.__setattr__(self, "not_from", tuple(self.not_from))  # JSON has lists only
        targets: Mapping[str, Any] = self.targets
        made = {role: Target(**of) if isinstance(of, dict) else of for role, of in targets.items()}
        object.__setattr__(self, "targets", made)
        for name in ("budget", "batch limit", "start limit"):
            limit_s: float = getattr(self, f"{name.replace(' ', '_')}_s")
            if not 0 < limit_s < inf:
                raise MisuseError(
                    f"the {name} must be above 0 seconds, and finite; found {limit_s:g}"
                )

    def to_json(self) -> str:
        """Return the non-default values as JSON; another version may not know the rest."""
        defaults = asdict(type(self)(self.kind))
        values = {name: value for name, value in asdict(self).items() if value != defaults[name]}
        values.pop("time_left_s", None)
        return json.dumps({"kind": self.kind, **values})

    @property
    def typical_s(self) -> float:
        """Seconds that the session usually takes."""
        return self.budget_s + TYPICAL_START_S

    @property
    def start_up_s(self) -> float:
        """Seconds allowed to load the model, and to compile and warm up its step."""
        return max(START_LIMIT_S, self.start_limit_s)

    @property
    def limit_s(self) -> float:
        """Seconds after which the parent ends the session."""
        return min(self.time_left_s, self._own_limit_s)

    @property
    def _own_limit_s(self) -> float:
        # A loader that ends is started again during the rounds.
        around_s = _IMPORT_S + self.start_up_s + 2 * self.start_limit_s + FAREWELL_S
        return around_s + self.budget_s + OVERTIME_S


def partial_result_file(request: SessionRequest) -> Path:
    """Return the file for an incomplete result."""
    return Path(request.result).with_name("partial.json")


def stacks_file(request: SessionRequest) -> Path:
    """Return the file for the stacks of the threads if one held the GIL until the limit."""
    return Path(request.result).with_name("stacks.txt")


def progress_file(request: SessionRequest) -> Path:
    """Return the file for a session's progress."""
    return Path(request.result).with_name("progress.json")


def write_result(
    request: SessionRequest, document: Mapping[str, object], *, is_whole: bool = True
) -> None:
    """Write a result under its key, or an `error_document`, completely or not at all.

    An incomplete result (`is_whole` is false) counts only if no complete one follows.
    """
    # Every pytest run imports this module, but only a session writes results.
    from netpipe.files.whole_file import write_whole

    result = Path(request.result) if is_whole else partial_result_file(request)
    text = json.dumps({"schema": SCHEMA, **document}, allow_nan=False)
    write_whole(result, text, "session", lasts=False)


def error_document(kind: str, message: str) -> dict[str, object]:
    """Return the result of a failed session; the kind is one of `_ERRORS`."""
    return {"error": {"kind": kind, "message": message}}


def read_result(result: Path) -> Any:
    """Return the result in a session's file.

    Raises:
        HarnessError: The session has failed, or the file does not hold a result.
    """
    try:
        document = json.loads(result.read_text(encoding="utf-8"))
        del document["schema"]
        ((key, found),) = document.items()
        if key != "error":
            return found
        failure = _ERRORS[found["kind"]](found["message"])
    except (ValueError, KeyError, TypeError) as error:
        raise SessionError(f"the session's result must be a {SCHEMA}; found {error!r}") from error
    raise failure
