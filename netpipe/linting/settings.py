"""What a project says of its lint: `[tool.netpipe.lint]` in its pyproject.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.linting.request import INTENTS

_FILE: Final = "pyproject.toml"
_TABLE: Final = "tool.netpipe.lint"


@dataclass(frozen=True)
class LintSettings:
    """How a project wants its pipeline judged.

    Attributes:
        intent: "throughput" or "reproducible".
        silences: The reason of every rule that is not to be reported, by the rule's name; with
            " of " and a function's name behind it, for that function alone.
    """

    intent: str = "throughput"
    silences: Mapping[str, str] = field(default_factory=dict)


def read_lint_settings(folder: Path) -> LintSettings:
    """Read the settings of the project that a folder lies in: its nearest pyproject.toml.

    Args:
        folder: Where to look first; its parents follow.

    Returns:
        The settings; the default ones where no file or no `[tool.netpipe.lint]` is.

    Raises:
        InputError: The file is no TOML, or the table holds what is no setting of ours.
    """
    path = next((one / _FILE for one in (folder, *folder.parents) if (one / _FILE).is_file()), None)
    return LintSettings() if path is None else _settings(path)


def _settings(path: Path) -> LintSettings:
    table = _table(path)
    for key in table:
        if key not in ("intent", "silence"):
            raise InputError(path, f"{_TABLE} key", "be intent or silence", repr(key))
    intent = table.get("intent", "throughput")
    if intent not in INTENTS:
        raise InputError(path, f"{_TABLE}.intent", f"be one of {', '.join(INTENTS)}", repr(intent))
    return LintSettings(intent, _silences(path, table.get("silence", {})))


def _table(path: Path) -> Mapping[str, Any]:
    try:
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, "file", "be TOML", error) from error
    for name in _TABLE.split("."):
        found = found.get(name, {})
        if not isinstance(found, dict):
            raise InputError(path, _TABLE, "be a table", repr(found))
    return dict(found)


def _silences(path: Path, table: object) -> Mapping[str, str]:
    if not isinstance(table, dict):
        raise InputError(path, f"{_TABLE}.silence", "be a table", repr(table))
    for rule, reason in table.items():
        _check_silence(path, rule, reason)
    return table


def _check_silence(path: Path, rule: str, reason: object) -> None:
    from netpipe.linting.linter import rule_of_silence
    from netpipe.linting.rules import RULE_NAMES

    where = f"{_TABLE}.silence"
    if rule_of_silence(rule) not in RULE_NAMES:
        raise InputError(path, f"{where} key", f"be one of {', '.join(RULE_NAMES)}", repr(rule))
    if not isinstance(reason, str) or not reason.strip():
        raise InputError(path, f"{where}.{rule}", "be the reason, as text", repr(reason))
