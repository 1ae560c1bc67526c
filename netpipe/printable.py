"""Makes external text (names, messages, source lines) safe to show."""

import re
from typing import Final

# XML or UTF-8 forbids these characters, a terminal acts on them (a carriage return overwrites the
# line), or they reverse the text after them.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
# GitHub Actions executes log lines that begin like this: ::error:: and the older ##[error].
_LOG_COMMAND: Final = re.compile(r"(?m)^(\s*)(::|##\[)")


def make_printable(text: str) -> str:
    """Replace characters that are not safe in terminals, XML or UTF-8."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def make_loggable(text: str) -> str:
    """Make a text printable, and escape lines that GitHub Actions would execute."""
    return _LOG_COMMAND.sub(r"\1\\\2", make_printable(text))
