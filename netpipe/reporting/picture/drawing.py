"""The terminal's picture of a pipeline as a single SVG without scripts, fonts or other files."""

import re
from html import escape
from io import StringIO
from string import Template
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from netpipe.linting.linter import LintReport
from netpipe.printable import make_printable
from netpipe.reporting.picture.calls import describe_call
from netpipe.reporting.picture.terminal import TextPicture, print_report
from netpipe.reporting.picture.visible_graph import NO_GRAPH, VisibleGraph, count_findings

_COLUMNS: Final = 100
# Background, text, then black, red, green, yellow, blue, magenta, cyan and white.
_LIGHT: Final = TerminalTheme(
    (255, 255, 255), (8, 12, 16),
    [(8, 12, 16), (163, 29, 21), (22, 101, 52), (122, 75, 0), (36, 86, 166), (112, 26, 117),
     (11, 85, 143), (97, 110, 124)],
)  # fmt: skip
_DARK: Final = TerminalTheme(
    (17, 22, 29), (228, 233, 239),
    [(228, 233, 239), (255, 189, 182), (134, 239, 172), (255, 216, 134), (156, 192, 250),
     (240, 171, 252), (171, 216, 255), (154, 167, 180)],
)  # fmt: skip
# Rich fills the fields in braces. Rich's own format draws a window and loads a web font.
_FORMAT: Final = Template("""\
<svg role="img" aria-label="$label" viewBox="-9 0 {width} {terminal_height}" width="900" \
xmlns="http://www.w3.org/2000/svg">
<title>$label</title>
<desc>$order</desc>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace }}
{styles} .{unique_id}-page {{ fill: $light_page }}
@media (prefers-color-scheme: dark) {{ $dark .{unique_id}-page {{ fill: $dark_page }} }}
</style>
<defs>{lines}</defs>
<rect class="{unique_id}-page" x="-9" width="100%" height="100%"/>
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</svg>
""")


def draw_svg(report: LintReport, *, lists_findings: bool = True) -> str:
    """Return an SVG of a pipeline with its findings marked and, by default, listed below it."""
    console = Console(
        record=True, width=_COLUMNS, file=StringIO(), color_system="truecolor",
        force_terminal=True, force_jupyter=False, legacy_windows=False, markup=False, emoji=False,
        highlight=False,
    )  # fmt: skip
    if lists_findings:
        print_report(console, report)
    else:
        console.print(TextPicture(report))
    calls = map(describe_call, reversed(list(VisibleGraph(report).nodes.values())))
    order = "; ".join(calls) or NO_GRAPH
    subject = f"A pipeline, judged for {report.intent} under Grain {report.grain_version}"
    label = f"{subject}: {count_findings(report) or 'nothing found'}"
    dark = console.export_svg(theme=_DARK, clear=False, code_format="{styles}")
    texts = {"label": escape(label), "order": escape(order), "dark": dark}
    texts |= {"light_page": _LIGHT.background_color.hex, "dark_page": _DARK.background_color.hex}
    kept = {name: text.replace("{", "{{").replace("}", "}}") for name, text in texts.items()}
    drawing = console.export_svg(theme=_LIGHT, code_format=_FORMAT.substitute(kept))
    return make_printable(re.sub(r"<text [^>]*>\s*</text>", "", drawing))
