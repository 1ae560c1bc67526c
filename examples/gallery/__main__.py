"""Make the gallery: measure each case, and write its result, its page and a picture of the page.

    python -m examples.gallery docs/gallery [CASE...]

The quotes of docs/gallery.md are renewed too. If cases are named, only these are measured; `-`
names none. A result that does not show its case, for example because other programs are busy, is
not kept. All cases take about ten minutes; needs chromium and git.
"""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from netpipe.reporting.rendering import read_document, render_page

ROOT: Final = Path(__file__).resolve().parents[2]
_OWN: Final = "examples/gallery/pipelines.py"
_REGRESSION: Final = (
    "return np.frombuffer(window, np.uint8)",
    "return np.array([ord(character) for character in window.decode()], np.uint8)",
)


@dataclass(frozen=True)
class Case:
    """A case of the gallery.

    Attributes:
        command: The command that measures it.
        shows: Words of the quote if the result shows the case.
    """

    command: str
    shows: tuple[str, ...]


CASES: Final = {
    "healthy": Case(
        f"netpipe measure --loader {_OWN}:healthy --accelerator emulated:30ms", ("healthy:",)
    ),
    "gil": Case(
        f"netpipe diagnose --loader {_OWN}:merged_in_python --accelerator emulated:42ms",
        ("Loader-bound", "bound by the GIL", "Tried"),
    ),
    "sync": Case(
        f"netpipe measure --loader {_OWN}:from_a_disk --loop {_OWN}:read_each_loss"
        " --accelerator emulated:40ms",
        ("forced-sync:", "pipelines.py:"),
    ),
    "bucket": Case(
        "netpipe diagnose --loader examples/storage/documents.py:batches"
        " --accelerator emulated:30ms --storage object-store --budget 90",
        ("Loader-bound", "bound by the latency of reads", "Tried"),
    ),
    "order": Case(
        "netpipe lint examples/order/input_pipeline.py:batches",
        ("the one process that trains makes every batch", "cost:"),
    ),
    "regression": Case(
        "pytest --netpipe-against HEAD -k load_time", ("REGRESSED", "load_cpu_ratio")
    ),
}


def quote(document: Mapping[str, Any]) -> str:
    """Return the sentence of a result that docs/gallery.md quotes."""
    match document:
        case {"sentence": str(sentence)}:
            return sentence
        case {"verdict": {"message": str(message)}}:
            return message
        case {"findings": [{"message": message, "cost": cost}, *_]}:
            return f"{message}; cost: {cost}"
        case {"comparisons": comparisons}:
            worse = [each for each in comparisons if each["outcome"] == "REGRESSED"]
            return "; ".join(f"{each['metric']} REGRESSED: {each['reason']}" for each in worse)
    raise ValueError(f"no sentence in {sorted(document)}")


def measure(name: str, result: Path) -> None:
    """Measure a case, and write its result if that shows the case."""
    case = CASES[name]
    with TemporaryDirectory() as folder:
        new = Path(folder, result.name)
        if name == "regression":
            words = [*case.command.split(), "--netpipe-json", str(new)]
            subprocess.run(words, cwd=plant_regression(Path(folder, "project")), check=False)
        else:
            words = [*case.command.split(), "--json"]
            with new.open("wb") as stream:
                subprocess.run(words, cwd=ROOT, check=False, stdout=stream)
        text = new.read_text(encoding="utf-8")
        # The paths of this machine mean nothing elsewhere.
        for path in (f"{folder}/project/", f"{ROOT}/"):
            text = text.replace(path, "")
    said = quote(json.loads(text))
    if any(words not in said for words in case.shows):
        sys.exit(f"{name}: try again; expected {case.shows}, found: {said}")
    result.write_text(text, encoding="utf-8")


def plant_regression(project: Path) -> Path:
    """Copy a project into a repository of its own, and make its input slower after a commit."""
    shutil.copytree(ROOT / "examples" / "foreign", project)
    git = ["git", "-c", "user.name=gallery", "-c", "user.email=gallery@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Read windows of texts"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    source = project / "text_windows.py"
    source.write_text(source.read_text().replace(*_REGRESSION))
    return project


def photograph(page: Path) -> None:
    """Write a picture of the top of a page beside it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
    with TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--window-size=1280,900",
                f"--screenshot={page.with_suffix('.png')}", page.resolve().as_uri(),
            ],
            check=True, capture_output=True,
        )  # fmt: skip


def renew_quote(text: str, name: str, said: str) -> str:
    """Replace the quote in the section of a page that shows a case's picture."""
    quoted = textwrap.fill(said, 110, initial_indent="> ", subsequent_indent="> ")
    sections = text.split("\n## ")
    place = next(n for n, section in enumerate(sections) if f"/{name}.png" in section)
    sections[place] = re.sub(
        r"^>.*(?:\n>.*)*", lambda _: quoted, sections[place], flags=re.MULTILINE
    )
    return "\n## ".join(sections)


def main() -> None:
    """Measure the named cases, or all, and make the page and the picture of each result."""
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    folder.mkdir(parents=True, exist_ok=True)
    document = folder.with_suffix(".md")
    for name, case in CASES.items():
        result = folder / f"{name}.json"
        if name in names:
            measure(name, result)
        if not result.exists():
            continue
        page, found = result.with_suffix(".html"), read_document(result)
        page.write_text(render_page([found], repeat=case.command), encoding="utf-8")
        photograph(page)
        text = renew_quote(document.read_text(encoding="utf-8"), name, quote(found))
        document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
