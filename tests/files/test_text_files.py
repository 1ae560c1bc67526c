"""JSON and TOML files: invalid text and special files are refused at once."""

import os
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.files.text_files import MAX_JSON_BYTES, MAX_TOML_BYTES, read_json, read_toml


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": NaN}', "the number nan"),
        (b'{"a": [-1e999]}', "the number -inf"),
        (b'{"a": 1e308}', r"the number 1e\+308"),
        (b'{"a": 99999999999999999999}', "an integer of 67 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "be JSON"),
        (b'{"a": 1, "a": 2}', "the key 'a' 2 times"),
        (b"[" * 100_000, "be JSON"),
        (b"[" * 101 + b"]" * 101, "more than 100 levels"),
        (b'{"a": "\xff"}', "can't decode byte 0xff"),
        (b"", "be JSON"),
    ],
)
def test_odd_json_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """The error names the file and the odd content."""
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"odd\.json: file must be JSON; .*{message}|{message}"):
        read_json(path)


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"9" * 5000, b"a = " + b"[" * 5000, b"\xff", b"a = 1\na = 2", b".a" * 400 + b"=1"],
)
def test_odd_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error names the file."""
    path = tmp_path / "odd.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"odd\.toml: file must be TOML"):
        read_toml(path)


@pytest.mark.parametrize(
    ("read", "most"), [(read_json, MAX_JSON_BYTES), (read_toml, MAX_TOML_BYTES)]
)
def test_other_files_are_refused(tmp_path: Path, read: object, most: int) -> None:
    """Missing files, folders and huge files give one error each, at once."""
    assert callable(read)
    large = tmp_path / "large"
    with large.open("wb") as stream:
        stream.truncate(most + 1)
    expected = {
        tmp_path / "absent": "readable; found No such file",
        tmp_path: "readable; found Is a directory",
        large: "at most .* bytes",
    }
    for path, message in expected.items():
        with pytest.raises(InputError, match=message):
            read(path)


def test_a_pipe_is_read() -> None:
    """`netpipe report <(netpipe measure --json)` gives a pipe; a byte order mark is skipped."""
    reading, writing = os.pipe()
    os.write(writing, b'\xef\xbb\xbf{"a": 1}')
    os.close(writing)
    try:
        assert read_json(Path(f"/dev/fd/{reading}")) == {"a": 1}
    finally:
        os.close(reading)
