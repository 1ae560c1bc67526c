"""Elements of an SVG as text, with everything from outside escaped."""

from xml.sax.saxutils import escape, quoteattr

_UNPRINTABLE = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}"
)


def element(name: str, *content: str, **attributes: str | float) -> str:
    """Return an element.

    Args:
        name: Its name.
        content: What it holds, elements and escaped text.
        attributes: By their names, with `_` for `-` and a `_` behind a word of Python's.
    """
    pairs = (f" {_attribute(key)}={quoteattr(_value(value))}" for key, value in attributes.items())
    opening = f"<{name}{''.join(pairs)}"
    return f"{opening}>{''.join(content)}</{name}>" if content else f"{opening}/>"


def plain(text: str) -> str:
    """Escape text; a character that XML has no place for is replaced."""
    return escape(text.translate(_UNPRINTABLE))


def text(x: float, y: float, content: str, look: str, anchor: str = "start") -> str:
    """Return a line of text that begins, ends or has its middle at `x`, on the ground line `y`."""
    return element("text", plain(content), x=x, y=y, class_=look, text_anchor=anchor)


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"
