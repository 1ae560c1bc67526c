"""Names of storages: presets, settings that override them, and refused values."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from netpipe.errors import MisuseError
from netpipe.storage.profiles import _SETTINGS, PRESETS, StorageProfile, parse_storage

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"


def test_a_preset_is_known_by_its_name() -> None:
    """A name alone gives the unchanged preset."""
    assert parse_storage("object-store") == PRESETS["object-store"]


def test_settings_replace_those_of_a_preset() -> None:
    """Settings are converted to SI units, and the other figures stay as they are."""
    text = (
        "object-store,latency=50.5ms,tail=1s,connection=20kB/s,bandwidth=2GB/s,concurrent=8,"
        "rate=200/s,retry=500us,failures=0.02,cache=3MB,warm=0.25"
    )
    assert parse_storage(text) == StorageProfile(
        text, 0.0505, 1.0, 20e3, 2e9, 8, 200.0, 0.0005, 0.02, 3e6, 0.25
    )
    assert parse_storage("object-store,latency=50ms").tail_latency_s == 0.2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bucket", r"storage must be one of local-nvme, .*, bucket-mount; found 'bucket'"),
        ("", r"storage must be one of .*; found ''"),
        ("local-nvme,speed=3", r"setting must be one of latency, tail, .*; found 'speed=3'"),
        ("local-nvme,", r"setting must be one of latency, .*; found ''"),
        ("local-nvme,latency", r"latency must be like 50ms; found ''"),
        ("local-nvme,latency=5", r"latency must be like 50ms; found '5'"),
        ("local-nvme,latency=-5ms", r"latency must be like 50ms; found '-5ms'"),
        ("local-nvme,connection=5MB", r"connection must be like 50MB/s; found '5MB'"),
        ("local-nvme,rate=100", r"rate must be like 100/s; found '100'"),
        ("local-nvme,failures=1%", r"failures must be like 0.01; found '1%'"),
        ("local-nvme,cache=1GiB", r"cache must be like 10GB; found '1GiB'"),
        ("local-nvme,connection=0MB/s", r"connection must be above 0; found 0"),
        ("local-nvme,bandwidth=0GB/s", r"bandwidth must be above 0; found 0"),
        ("local-nvme,rate=0/s", r"rate must be above 0; found 0"),
        ("local-nvme,concurrent=0", r"concurrent must be a whole number from 1 to 1000; found 0"),
        ("local-nvme,concurrent=1.5", r"concurrent must be a whole number .*; found 1.5"),
        ("local-nvme,concurrent=1001", r"concurrent must be a whole number .*; found 1001"),
        ("local-nvme,failures=0.95", r"failures must be 0 to 0.9; found 0.95"),
        ("local-nvme,warm=1.5", r"warm must be 0 to 1; found 1.5"),
        (
            "object-store,latency=300ms",
            r"tail must be 0s, or at least a latency above 0; found latency=300ms, tail=200ms",
        ),
        (
            "object-store,latency=0s",
            r"tail must be 0s, or at least a latency above 0; found latency=0ms, tail=200ms",
        ),
    ],
)
def test_a_bad_setting_is_named(text: str, message: str) -> None:
    """The message has the setting, its constraint and the value found."""
    with pytest.raises(MisuseError, match=message) as refused:
        parse_storage(text)
    assert "\n" not in str(refused.value)


def test_every_example_of_a_message_can_be_used() -> None:
    """Every example in a message is accepted as a value."""
    examples = (f"{key}={setting.example}" for key, setting in _SETTINGS.items())
    assert parse_storage(",".join(("local-nvme", *examples)))


def test_every_field_can_be_set() -> None:
    """Every field of a profile has a setting."""
    settable = {setting.field for setting in _SETTINGS.values()}
    assert settable == {field.name for field in fields(StorageProfile)} - {"name"}


def test_the_page_lists_settings_and_presets() -> None:
    """docs/storage.md has a row for each setting and for each figure of a preset."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+?)=(\S+?)` \|", text, re.MULTILINE)
    assert dict(rows) == {key: setting.example for key, setting in _SETTINGS.items()}
    for preset in PRESETS.values():
        figures = re.findall(rf"^\| `{preset.name}` \| `([^`]+)` \|", text, re.MULTILINE)
        listed = parse_storage(",".join((preset.name, *figures)))
        assert vars(listed) == pytest.approx({**vars(preset), "name": listed.name})
        is_set = [
            key
            for key, setting in _SETTINGS.items()
            if getattr(preset, setting.field) != getattr(StorageProfile(""), setting.field)
        ]
        assert [figure.partition("=")[0] for figure in figures] == is_set
