"""Valid inputs with a few invalid parts, and checks that readers refuse them."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from netpipe.errors import InputError

T = TypeVar("T")

JSON_VALUES: Final = (
    "null", "true", "[]", "{}", '""', "NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "0.0",
    "-0.0", "1", "1.0", "1.5", "99", "1e308", "1e-320", "1e18", "9" * 20, "9" * 400, "9" * 5000,
    "[" * 90 + "]" * 90, "[" * 5000, '{"a": ' * 5000, '{"a": 1, "a": 2}', '"\\ud800"', '"1"',
    '"\\u001b]0;x\\u0007"', f'"{"x" * 1_000_000}"', '"netpipe.lint/2"',
)  # fmt: skip
TOML_VALUES: Final = (
    "", "true", "[]", "{}", '""', "nan", "inf", "-inf", "-1", "0", "1", "1.5", "99", "1e308",
    "1e999", "9" * 20, "9" * 400, "9" * 5000, "[" * 90 + "]" * 90, "[" * 5000, "{a = " * 5000,
    '"1"', '"\\u001b]0;x\\u0007"', f'"{"x" * 100_000}"', '"""\n"""', "2026-12-31",
    "2026-12-31T00:00:00", "99:99:99", "0001-01-01", "[[1]]", "{a.a = 1}",
)  # fmt: skip
BYTES: Final = (
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\xc3", b"\xed\xa0\x80", b'"', b"{", b"[" * 5000, b"\n",
    b"\r", b"\x1b]0;x\x07", b"1", b"-", b"e999", b"\xff" * 64,
)  # fmt: skip

_REPEATED: Final = "@repeated@"


def mutated_json(document: Any) -> st.SearchStrategy[str]:
    """JSON texts of a document with up to three changes: most of them fit no schema."""
    return _mutated_json(document)


@st.composite
def _mutated_json(draw: st.DrawFn, document: Any) -> str:
    whole = [deepcopy(document)]
    texts: dict[str, str] = {}
    for number in range(draw(st.integers(1, 3))):
        parent, key = draw(st.sampled_from(list(_places(whole))))
        change = draw(st.sampled_from(("replace", "replace", "delete", "nest", "copy", "repeat")))
        if change == "delete" and parent is not whole:
            del parent[key]
        elif change == "nest":
            parent[key] = draw(st.sampled_from(([parent[key]], {"nested": parent[key]})))
        elif change == "copy":
            other, place = draw(st.sampled_from(list(_places(whole))))
            parent[key] = deepcopy(other[place])
        elif change == "repeat":
            if isinstance(parent, dict):
                parent[f"{key}{_REPEATED}"] = deepcopy(parent[key])
            else:
                parent.append(deepcopy(parent[key]))
        else:
            texts[f"@{number}@"] = draw(st.sampled_from(JSON_VALUES))
            parent[key] = f"@{number}@"
    text = json.dumps(whole[0]).replace(_REPEATED, "")
    for mark, raw in texts.items():
        text = text.replace(f'"{mark}"', raw)
    return text


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield containers with their keys; for lists, the first and the last index."""
    if isinstance(value, dict):
        keys: Any = list(value)
    elif isinstance(value, list) and value:
        keys = sorted({0, len(value) - 1})
    else:
        return
    for key in keys:
        yield value, key
        yield from _places(value[key])


@st.composite
def mutated_lines(draw: st.DrawFn, text: str) -> str:
    """TOML of "key = value" lines with up to three changes."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(("value", "value", "value", "key", "delete", "repeat")))
        key, _, value = lines[place].partition(" = ")
        if change == "value":
            lines[place] = f"{key} = {draw(st.sampled_from(TOML_VALUES))}"
        elif change == "key":
            odd = ("x", '"\\u001b"', '""', "x" * 100_000, ".".join("x" * 2_000), "[", "[x.y]")
            lines[place] = f"{draw(st.sampled_from(odd))} = {value}"
        elif change == "repeat":
            lines.insert(place, lines[place])
        elif len(lines) > 1:
            del lines[place]
    return "\n".join(lines)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes with up to three changes: cut, flipped, inserted, repeated or exchanged."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(changed))] * 2)))
        change = draw(st.sampled_from(("cut", "truncate", "flip", "insert", "repeat", "swap")))
        if change == "cut":
            del changed[first : min(last, first + 64)]
        elif change == "truncate":
            del changed[last:]
        elif change == "flip" and first < len(changed):
            changed[first] ^= 1 << draw(st.integers(0, 7))
        elif change == "insert":
            changed[first:first] = draw(st.sampled_from(BYTES))
        elif change == "repeat":
            changed[first:first] = changed[first:last]
        else:
            changed[first : first + 8], changed[last : last + 8] = (
                changed[last : last + 8], changed[first : first + 8],
            )  # fmt: skip
    return bytes(changed)


def read_or_refuse(read: Callable[[Path], T], path: Path) -> T | None:
    """Return the result of a reader, or None if it refuses the file properly."""
    try:
        return read(path)
    except InputError as error:
        check_message(str(error), path)
        return None


def check_message(message: str, path: Path) -> None:
    """Check that an error is one printable paragraph that names the file."""
    assert str(path) in message
    assert message.isprintable(), ascii(message[:500])
    assert len(message) < 1200 + len(str(path)), message[:500]


_ODD_VALUES: Final = {
    float: (0.0, 5e-324, 1e-12, 1.0, 1e12, 1e308, -1e308),
    int: (0, 1, 2, 10**6, 2**64 - 1, -1),
    str: ("", "x" * 100_000, "\x1b]0;x\x07", "\ud800", "</script>", "$x_1$", "a\nb"),
    bool: (True, False),
    list: ([],),
    type(None): (None,),
}


@st.composite
def odd_values(draw: st.DrawFn, document: Any) -> str:
    """JSON texts of a document with up to four values replaced by others of their types."""
    changed = deepcopy(document)
    places = [(parent, key) for parent, key in _places(changed) if type(parent[key]) is not dict]
    for parent, key in draw(st.lists(st.sampled_from(places), min_size=1, max_size=4)):
        parent[key] = draw(st.sampled_from(_ODD_VALUES[type(parent[key])]))
    return json.dumps(changed)
