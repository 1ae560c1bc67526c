"""A page in a real browser: readable on a phone and a desktop, without requests."""

from functools import cache
from pathlib import Path

import pytest

from netpipe.reporting.rendering import render_page
from tests.reporting.browser import CHROMIUM, WIDTHS, Seen, open_page
from tests.reporting.examples import HOSTILE, diagnosis, lint, measurement, measurements, run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@cache
def full_page() -> str:
    """A page with a part of every kind, and hostile names."""
    hostile = (measurement(HOSTILE), diagnosis(HOSTILE), lint(HOSTILE))
    return render_page((*hostile, measurements(), run()), repeat=f"netpipe report {HOSTILE}")


@pytest.fixture(scope="module", params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    """The preferred colour scheme."""
    return str(request.param)


@pytest.fixture(scope="module")
def seen(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Return what the browser shows at both widths."""
    return open_page(full_page(), tmp_path_factory.mktemp("chromium"), scheme)


def test_the_frames_are_of_both_widths(seen: Seen) -> None:
    """The frames are as wide as a phone and a desktop, and have content."""
    assert [frame["width"] for frame in seen.frames] == list(WIDTHS)
    assert all(frame["texts"] > 100 for frame in seen.frames)


def test_nothing_is_said_on_the_console(seen: Seen) -> None:
    """The page has no errors and requests nothing that its policy refuses."""
    assert seen.console == []


def test_no_request_leaves(seen: Seen) -> None:
    """The page fetches nothing and has no script, image or link."""
    assert [frame["requests"] for frame in seen.frames] == [[], []]
    assert [frame["scripts"] for frame in seen.frames] == [0, 0]


def test_nothing_is_wider_than_the_window(seen: Seen) -> None:
    """Wide content scrolls in its own box."""
    assert [frame["scroll_width"] for frame in seen.frames] == list(WIDTHS)


def test_every_text_stands_out(seen: Seen) -> None:
    """Text has the contrast of WCAG AA, at least 4.5, even inside a drawing."""
    assert [frame["faint"] for frame in seen.frames] == [[], []]


def test_figures_are_readable_on_a_phone(seen: Seen) -> None:
    """No line in a drawing is below 10 px high."""
    assert all(frame["smallest_px"] >= 10 for frame in seen.frames)


def test_no_two_elements_share_an_id(seen: Seen) -> None:
    """Drawings refer to their own parts only."""
    assert [frame["doubled_ids"] for frame in seen.frames] == [0, 0]


def test_the_page_follows_the_reader(seen: Seen, scheme: str) -> None:
    """The page is light on a light system and dark on a dark one."""
    is_light = [frame["paper"] > 0.5 for frame in seen.frames]
    assert is_light == [scheme == "light"] * 2


def test_what_would_be_fetched_is_refused(tmp_path: Path) -> None:
    """The policy refuses an image in a page, and the check notices it."""
    tampered = full_page().replace("</main>", '<img src="http://127.0.0.1:9/x.png"></main>')
    assert any("Content Security Policy" in line for line in open_page(tampered, tmp_path).console)
