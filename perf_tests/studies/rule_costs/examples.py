"""The examples of docs/rules.md as loader factories, under one setting or another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perf_tests.studies.rule_costs.document import (
    RULES_DOCUMENT,
    SHARED,
    Block,
    Form,
    parse_sections,
)

Names = dict[str, Any]  # the global names of a piece of Python


@dataclass(frozen=True)
class Setting:
    """The values that the examples run with.

    Attributes:
        batch: Rows of a batch.
        python_s_per_row: Seconds of Python per row.
        read_s: Seconds that reading a row waits.
        rows: Rows of the data set.
        workers: Worker processes, unless an example sets their number itself.
    """

    batch: int
    python_s_per_row: float = 0.0
    read_s: float = 0.0
    rows: int = 1_000_000
    workers: int = 2

    @property
    def step_s(self) -> float:
        """Seconds of a training step that takes as long as the Python on its batch."""
        return self.batch * self.python_s_per_row

    def __str__(self) -> str:
        """Return the setting in words that follow a unit."""
        batches = f"batches of {self.batch}"
        if self.read_s:
            return f"at reads that wait {1e3 * self.read_s:g} ms and {batches}"
        if not self.python_s_per_row:
            return f"at {batches}"
        return f"at {1e3 * self.python_s_per_row:g} ms of Python per element and {batches}"


@dataclass(frozen=True)
class Example:
    """One of the examples: the code that all have in common, and its own."""

    shared: Block
    block: Block

    def loader(self, setting: Setting | None = None) -> Callable[[], Any]:
        """Return a fresh loader factory: the example's function `pipeline`.

        A setting replaces the values of the document.
        """
        # No module of this name can be imported, so cloudpickle sends functions by value.
        names: Names = {"__name__": "docs_rules"}
        _run(self.shared, names)
        if setting:
            names |= _override(setting, names)
        _run(self.block, names)
        factory: Callable[[], Any] = names["pipeline"]
        return factory


def load_example(rule: str, form: Form) -> Example:
    """Read the wrong or the right example of a rule from the document."""
    found = parse_sections(RULES_DOCUMENT.read_text(encoding="utf-8"))
    (shared,) = found[SHARED].blocks
    return Example(shared, found[rule].block(form))


def _override(setting: Setting, names: Names) -> Names:
    return {
        "BATCH": setting.batch,
        "PYTHON_S_PER_ROW": setting.python_s_per_row,
        "READ_S": setting.read_s,
        "ROWS": setting.rows,
        "WORKERS": names["grain"].MultiprocessingOptions(num_workers=setting.workers),
    }


def _run(block: Block, names: Names) -> None:
    """Run a block so that tracebacks and findings name its lines of the document."""
    lines_above = "\n" * (block.line - 1)
    exec(compile(lines_above + block.code, RULES_DOCUMENT, "exec"), names)
