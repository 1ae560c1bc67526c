"""Golden files: recorded user-visible output, compared in every test run."""

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WRITES = bool(os.environ.get("NETPIPE_WRITE_GOLDENS"))


def check_lines(name: str, lines: Iterable[str]) -> None:
    """Fail if the lines differ from a golden file, or write the file."""
    path, found = HERE / f"{name}.txt", list(lines)
    if WRITES:
        path.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    kept = path.read_text(encoding="utf-8").splitlines()
    changed = difflib.unified_diff(kept, found, path.name, "now", n=0, lineterm="")
    assert found == kept, "\n".join(changed)


_FIGURE = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?:%| ?(?:ms|us|s|x|[kMGT]?B)\b)?")
_OUTCOME = re.compile(r"\b(?:PASS|REGRESSED|IMPROVED|INCONCLUSIVE|NOT_COMPARED|NO_BASELINE)\b")


def figures(text: str) -> str:
    """Return the distinct figures and outcomes in a text, without its words."""
    found = sorted({match.strip(",") for match in _FIGURE.findall(text)}, key=_sort_key)
    return " | ".join([*sorted(set(_OUTCOME.findall(text))), *found])


def page_figures(page: str) -> str:
    """Return the figures on a page, and the number of its drawings."""
    visible = re.sub(r"<(svg|style|script|title)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", visible)
    return f"{page.count('<svg')} drawings; {figures(text)}"


def _sort_key(figure: str) -> tuple[float, str]:
    return float(re.match(r"[-\d,.e]*\d", figure)[0].replace(",", "")), figure  # type: ignore[index]
