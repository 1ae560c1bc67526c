"""docs/tutorial.md can be followed word by word, and prints what it shows."""

import os
import re
from pathlib import Path

import pytest

from tests.root_process import ROOT
from tests.shown_commands import follow

takes_minutes = pytest.mark.skipif(
    os.environ.get("TOX_ENV_NAME") != "tutorial", reason="tox -e tutorial runs this test"
)


@takes_minutes
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    """Every command runs in an empty folder, and prints the words that the page shows.

    An open verdict on a busy machine skips the test.
    """
    text, commands = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), 0
    for ran in follow(text, tmp_path):
        if "use a less busy machine" in ran.printed:
            pytest.skip(f"other programs are too busy: {ran.printed}")
        assert not ran.missing, (ran.command, ran.missing, ran.printed)
        fails = bool(re.search(r"\d failed|^Loader-bound", ran.shown, re.MULTILINE))
        assert (ran.code != 0) is fails, ran
        commands += 1
    assert commands > 8


PAGE = """
Write `greeting.py`:

```python
WORD = "hello"


def greet():
    return WORD


print(greet())
```

Change `greet` in `greeting.py`:

```python
def greet():
    return WORD + " world"
```

```console
$ python greeting.py
hello world 1.5 ms
$ false
```
"""


def test_a_page_is_followed(tmp_path: Path) -> None:
    """Files are written, a function is replaced, and commands run in the folder."""
    greeted, failed = follow(PAGE, tmp_path)
    assert (greeted.command, greeted.printed) == ("python greeting.py", "hello world\n")
    assert (greeted.missing, greeted.code) == (set(), 0)
    assert (failed.command, failed.code) == ("false", 1)


def test_missing_words_are_found(tmp_path: Path) -> None:
    """Other figures are accepted, and other words are not."""
    (ran,) = follow("```console\n$ echo loader-bound 7 ms\nhealthy 8 ms\n```\n", tmp_path)
    assert ran.missing == {"healthy"}
