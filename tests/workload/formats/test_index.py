"""The index beside the shards."""

from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.index import INDEX_NAME, Index, Shard, Split, load_index, save_index

TRAIN = Split(3, (Shard("train-00000-of-00002.arrayrecord", (5, 7)), Shard("t.arrayrecord", (9,))))
INDEX = Index(1, 0, 0.05, 4096, "ab" * 16, TRAIN, Split(1, (Shard("e.arrayrecord", (2,)),)))


def test_an_index_comes_back(tmp_path: Path) -> None:
    """A saved index is loaded again, and its counts are those of its shards in turn."""
    save_index(INDEX, tmp_path)
    assert load_index(tmp_path) == INDEX
    assert INDEX.split("train").row_measurements.tolist() == [5, 7, 9]
    assert (INDEX.train.rows, INDEX.train.measurements) == (3, 21)
    assert INDEX.split("eval") is INDEX.eval


def test_a_missing_index_says_how_to_make_one(tmp_path: Path) -> None:
    """Without an index the error names the command that makes one."""
    with pytest.raises(InputError, match=r"json: .*`netpipe prepare`"):
        load_index(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"index\.json: file must be JSON.*`netpipe prepare`"),
        ("[]", "schema.*netpipe.index/1.*None"),
        ('{"schema": "netpipe.index/2"}', "found 'netpipe.index/2'.*upgrade"),
        ('{"schema": "netpipe.index/1"}', r"index\.json: .*'layout_version' is a required"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """Broken JSON, another schema and missing fields give different errors."""
    (tmp_path / INDEX_NAME).write_text(text)
    with pytest.raises(InputError, match=message):
        load_index(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[9]", '["many"]', r"shards\[1\]\.row_measurements\[0\] must be of type integer.*'many'"),
        ("[9]", '["9"]', r"of type integer; found '9'"),
        ("[9]", "[9.5]", r"of type integer; found 9\.5"),
        ("[9]", "[true]", "of type integer; found True"),
        ("[9]", "[-9]", "be at least 1; found -9"),
        ('"layout_version": 1', '"layout_version": 2', r"layout version.*found 2"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """A count that is not a number is damage, and a newer layout needs a newer netpipe."""
    save_index(INDEX, tmp_path)
    path = tmp_path / INDEX_NAME
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        load_index(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("e.arrayrecord", "t.arrayrecord", r"index\.json: file .*t\.arrayrecord once.*2 times"),
        ("e.arrayrecord", "../e.arrayrecord", r"index\.json: file .*be.*\.\./e"),
        ("e.arrayrecord", "/etc/passwd", r"index\.json: .*\.file .*\.arrayrecord.*passwd"),
        ("e.arrayrecord", "notes.txt", r"index\.json: .*\.file .*\.arrayrecord.*notes"),
        ('"parquet": []', '"parquet": ["../0.parquet"]', r"index\.json: file .*\.\./0\.parquet"),
        ('"parquet": []', '"parquet": [".."]', r"index\.json: parquet\[0\] .*\.parquet"),
        ('"probes": 3', '"probes": 4', r"train\.probes .*at most 3.*found 4"),
    ],
)
def test_an_index_that_contradicts_itself_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """A file that is listed twice, one outside the folder, and probes without rows are errors."""
    save_index(INDEX, tmp_path)
    path = tmp_path / INDEX_NAME
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        load_index(tmp_path)


def test_all_files_are_listed(tmp_path: Path) -> None:
    """The shards lie beside the index, and the generated files in a folder of their own."""
    index = replace(INDEX, parquet=("0.parquet",))
    save_index(index, tmp_path)
    assert load_index(tmp_path) == index
    assert list(map(str, index.files))[-2:] == ["e.arrayrecord", "parquet/0.parquet"]
