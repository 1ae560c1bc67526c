"""The lint settings of a project: `[tool.netpipe.lint]` in its pyproject.toml."""

from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.files.text_files import quote, read_project_table, shorten
from netpipe.linting.lint_request import INTENTS, LintRequest
from netpipe.linting.rules import RULE_NAMES

_TABLE: Final = "tool.netpipe.lint"


def read_lint_settings(folder: Path) -> LintRequest:
    """Return the settings of the nearest pyproject.toml; raise an InputError if it is invalid."""
    path, table = read_project_table(folder, _TABLE)
    for key in table:
        if key not in ("intent", "silence"):
            raise InputError(path, f"{_TABLE} key", "be intent or silence", quote(key))
    intent, silences = table.get("intent", "throughput"), table.get("silence", {})
    if intent not in INTENTS:
        raise InputError(path, f"{_TABLE}.intent", f"be one of {', '.join(INTENTS)}", quote(intent))
    if not isinstance(silences, dict):
        raise InputError(path, f"{_TABLE}.silence", "be a table", quote(silences))
    for silence, reason in silences.items():
        if silence.partition(" of ")[0] not in RULE_NAMES:
            known = ", ".join(RULE_NAMES)
            raise InputError(path, f"{_TABLE}.silence key", f"be one of {known}", quote(silence))
        if not isinstance(reason, str) or not reason.strip():
            field = f"{_TABLE}.silence.{shorten(silence)}"
            raise InputError(path, field, "be the reason, as text", quote(reason))
    return LintRequest(intent=intent, silences=silences)
