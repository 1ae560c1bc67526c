"""Headless Chromium: opens a page in frames of several widths and describes the result."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS: Final = (400, 1400)
_PATIENCE_S: Final = 60
_SCHEMES: Final = {"dark": 0, "light": 1}  # Chromium's own numbers

# A script outside the frame inspects it, because the page itself runs no script.
_ASK: Final = """
const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const channel = value => linear(value / 255);
const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
const luminance = ([red, green, blue]) =>
  0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
function behind(element, view) {
  for (; element; element = element.parentElement) {
    const colour = numbers(view.getComputedStyle(element).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
}
function contrast(element, view) {
  const style = view.getComputedStyle(element);
  const own = numbers(element.tagName === "text" ? style.fill : style.color);
  const both = [luminance(own), luminance(behind(element, view))].sort((a, b) => b - a);
  return (both[0] + 0.05) / (both[1] + 0.05);
}
const hasText = element => [...element.childNodes].some(
  node => node.nodeType === 3 && node.data.trim());
function seen(frame) {
  const view = frame.contentWindow, page = frame.contentDocument;
  const shown = [...page.body.querySelectorAll("*")].filter(
    element => hasText(element) && element.tagName !== "title" && !element.closest("svg.netpipe"));
  const ids = [...page.querySelectorAll("[id]")].map(one => one.id);
  return {
    width: page.documentElement.clientWidth,
    scroll_width: page.documentElement.scrollWidth,
    requests: view.performance.getEntriesByType("resource").map(one => one.name),
    scripts: page.querySelectorAll("script, img, iframe, link, [onerror]").length,
    texts: shown.length,
    faint: shown.filter(one => contrast(one, view) < 4.5).map(one => one.textContent),
    smallest_px: Math.min(...[...page.querySelectorAll("figure text")].map(
      one => one.getBoundingClientRect().height)),
    paper: luminance(numbers(view.getComputedStyle(page.body).backgroundColor)),
    doubled_ids: ids.length - new Set(ids).size,
  };
}
onload = () => {
  const found = [...document.querySelectorAll("iframe")].map(seen);
  const result = document.createElement("pre");
  result.textContent = JSON.stringify(found);
  document.body.replaceChildren(result);
};
"""


@dataclass(frozen=True)
class Seen:
    """The state of a page in a browser.

    Attributes:
        frames: The answers about each frame, in the order of `WIDTHS`.
        console: Console messages: errors, and requests that the page's policy refused.
    """

    frames: list[dict[str, Any]]
    console: list[str]


def open_page(page: str, folder: Path, scheme: str = "light") -> Seen:
    """Open a page in a frame of each width; `scheme` is the preferred colour scheme."""
    frames = "".join(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(page)}">'
        "</iframe>"
        for width in WIDTHS
    )
    around = folder / "around.html"
    around.write_text(
        f'<!doctype html><meta charset="utf-8"><body>{frames}<script>{_ASK}</script>',
        encoding="utf-8",
    )
    return _run_chromium(around, folder, scheme)


def _run_chromium(around: Path, folder: Path, scheme: str) -> Seen:
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking",
            "--enable-logging=stderr", "--window-size=1500,1000",
            f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
            f"--user-data-dir={folder / 'profile'}", "--dump-dom", around.as_uri(),
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE_S, check=True,
    )  # fmt: skip
    found = re.search(r"<pre>(.*)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(json.loads(html.unescape(found[1])), console)
