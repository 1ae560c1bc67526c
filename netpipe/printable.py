"""Text from outside (names, messages, source lines), before it is shown anywhere."""

import re
from typing import Final

# Characters that XML and UTF-8 do not allow, that a terminal acts on (a carriage return overwrites
# the line), and that reverse the text after them.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
# GitHub Actions executes such lines of a log: ::error::, and the older ##[error].
_LOG_COMMAND: Final = re.compile(r"(?m)^(\s*)(::|##\[)")


def make_printable(text: str) -> str:
    """Replace the characters of a text that terminals, XML or UTF-8 cannot show as they are."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def make_loggable(text: str) -> str:
    """Make a text printable, and keep its lines from being commands to GitHub Actions."""
    return _LOG_COMMAND.sub(r"\1\\\2", make_printable(text))
