"""What a wrong file is told."""

from __future__ import annotations

import gzip
import lzma
import re
from pathlib import Path

import pytest

from plackett.base.errors import DataError
from plackett.data.files import ReadLimits
from plackett.data.letor import errors as careful, iter_tables, read_table, reader as parse

GOOD = b"0 qid:1 1:0.5 2:7\n"
LONG = "9" * 100

LINES = [
    ("0 qid:1 0:5", "feature index 0; indices start at 1 (column 9)"),
    ("0 qid:1 1:5 3:1 2:6", "feature index 2 after 3; indices must rise (column 17)"),
    ("0 qid:1 1:5 1:6", "feature index 1 twice; a line names each index once (column 13)"),
    ("0 qid:1 -1:5", "feature index '-1' is not a whole number; indices start at 1 (column 9)"),
    ("0 qid:1 x:5", "feature index 'x' is not a whole number; indices start at 1 (column 9)"),
    ("0 qid:1 :5", "feature index '' is not a whole number; indices start at 1 (column 9)"),
    (f"0 qid:1 {LONG}:5", "feature index '9999999999999999999999999999999999999...' is too large"),
    ("0 qid:1 1:", "feature 1 has no value after the colon (column 11)"),
    ("0 qid:1 1:5 2: 3:1", "feature 2 has no value after the colon (column 15)"),
    ("0 qid:1 1", "'1' is not a feature; features read index:value (column 9)"),
    ("0 qid:1 1:5 junk", "'junk' is not a feature; features read index:value (column 13)"),
    ("0 qid:1 1:5x", "value '5x' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:0x10", "value '0x10' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:1_000", "value '1_000' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:1,5", "value '1,5' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:1e", "value '1e' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:1:2", "value '1:2' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:5\r 2:6", "CR without LF; lines must end in LF or CRLF (column 12)"),
    ("0 qid:1 1:5\r0 qid:1 1:6", "CR without LF; lines must end in LF or CRLF (column 12)"),
    ("0 qid:1 1:5 # a\r0 qid:1 1:6 # b", "CR without LF; lines must end in LF or CRLF (column 16)"),
    ("# a\r0 qid:1 1:6", "CR without LF; lines must end in LF or CRLF (column 4)"),
    ("\r0 qid:1 1:6", "CR without LF; lines must end in LF or CRLF (column 1)"),
    ("0 qid:1 1:5 # a\r\r\n", "CR without LF; lines must end in LF or CRLF (column 16)"),
    ("0 qid:1 1:5\x00", "value '5\\x00' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:٣", "value '٣' of feature 1 is not a number (column 11)"),
    ("0 qid:1 1:nan", "feature 1 is 'nan'; missing=\"nan\" allows missing values (column 11)"),
    ("0 qid:1 1:-inf", "feature 1 is '-inf'; values must be finite (column 11)"),
    ("0 qid:1 1:1 2:Infinity", "feature 2 is 'Infinity'; values must be finite (column 15)"),
    ("0 qid:1 1:1e39", "value '1e39' of feature 1 is beyond float32 (3.4028235e38) (column 11)"),
    ("0 qid:1 1:3.4028235677973367e38", "of feature 1 is beyond float32 (3.4028235e38)"),
    ("0", "the line ends after the label; a line reads 'label qid:ID index:value ... # comment'"),
    ("0 ", "the line ends after the label"),
    ("0 1:5", "no query id: found '1:5' where 'qid:ID' belongs (column 3)"),
    ("0 qid 1:5", "no query id: found 'qid' where 'qid:ID' belongs (column 3)"),
    ("0 1:5 qid:3", "query id 'qid:3' after features; it belongs after the label (column 7)"),
    ("0 qid:1 1:5 qid:2", "second query id 'qid:2'; a line has one (column 13)"),
    ("0 qid: 1:5", "empty query id; a line reads"),
    ("0 qid:#1 1:5", "empty query id; a line reads"),
    ("0 qid:a\x01b 1:5", "query id 'a\\x01b' holds a control character (column 3)"),
    ("-1 qid:1 1:5", "negative label '-1'; labels are numbers from 0 up (column 1)"),
    ("-1e-99 qid:1 1:5", "negative label '-1e-99'; labels are numbers from 0 up (column 1)"),
    ("nan qid:1 1:5", "label 'nan'; labels are numbers from 0 up (column 1)"),
    ("inf qid:1 1:5", "label 'inf'; labels are numbers from 0 up (column 1)"),
    ("1e40 qid:1 1:5", "label '1e40' is too large for a float32 (column 1)"),
    ("good qid:1 1:5", "label 'good' is not a number; labels are numbers from 0 up (column 1)"),
    ("qid:1 1:5", "label 'qid:1' is not a number; a line reads 'label qid:ID"),
    (" 1:5", "label '1:5' is not a number; a line reads 'label qid:ID"),
    ("0 qid:1 1:5 # a\x00b", "NUL byte in a comment; the file is not text (column 16)"),
    ("# a\x00b", "NUL byte in a comment; the file is not text (column 4)"),
]


@pytest.mark.parametrize(("line", "message"), LINES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_wrong_line_is_named_with_what_was_found(tmp_path: Path, line: str, message: str, end: bytes) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD * 4 + b"\n# comment\n" + line.encode() + end)
    with pytest.raises(DataError, match=re.escape(f"{path}:7: ")) as caught:
        read_table(path)
    assert message in str(caught.value)
    assert caught.value.line == 7
    with pytest.raises(DataError, match=re.escape(str(caught.value))):
        list(iter_tables(path, block_bytes=20))


@pytest.mark.parametrize("bad", [b"\xff", b"a\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80"])
def test_ids_that_are_not_utf8_are_refused(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD + b"0 qid:" + bad + b" 1:5\n")
    with pytest.raises(DataError, match=r":2: query id '.*' is not UTF-8 \(column 3\)"):
        read_table(path)
    path.write_bytes(GOOD + b"0 qid:1 1:5 # " + bad + b"\n")
    with pytest.raises(DataError, match=r":2: document id '.*' is not UTF-8 \(column 15\)"):
        read_table(path)


def test_the_first_error_is_reported_whatever_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plackett.data.letor.blocks.PIECE_BYTES", 50)
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD * 60 + b"bad\n" + GOOD * 3 + b"worse\n" * 200 + b"0 qid:1 900000000000000000000:1\n")
    for _ in range(20):
        with pytest.raises(DataError, match=r":61: label 'bad'"):
            read_table(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"# only a comment", b"\xef\xbb\xbf", b" \t\r\n\n"])
@pytest.mark.parametrize("suffix", [".txt", ".gz"])
def test_a_file_without_documents_is_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"train{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == ".gz" else content)
    with pytest.raises(DataError, match=r"train\.\w+: has no documents"):
        read_table(path)
    with pytest.raises(DataError, match=r"train\.\w+: has no documents"):
        list(iter_tables(path))


def test_a_file_without_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"0 qid:1\n1 qid:2 # x\n")
    with pytest.raises(DataError, match="has no features"):
        read_table(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory; give the name of a file"):
        read_table(tmp_path)
    with pytest.raises(DataError, match=r"absent\.txt: cannot be read: No such file"):
        read_table(tmp_path / "absent.txt")


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_damaged_archives_are_refused(tmp_path: Path, suffix: str, compress) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"train{suffix}"
    lines = b"".join(b"0 qid:1 1:%d 2:%d\n" % (i * i, i**3) for i in range(2000))
    whole = compress(lines)
    middle = len(whole) // 2
    for damaged in (whole[:middle], whole[:middle] + b"\xa5" * 64 + whole[middle + 64 :], b"0 qid:1 1:1\n"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"corrupt or truncated (gzip|xz) file"):
            read_table(path)


def test_an_index_above_the_given_width_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD + b"0 qid:1 1:5 3:1\n")
    with pytest.raises(DataError, match=r":2: feature index 3 above n_features=2 \(column 13\)"):
        read_table(path, n_features=2)


def test_a_matrix_too_large_for_memory_is_refused_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD + b"0 qid:1 1:5 100000000000000:1\n" + GOOD)
    with pytest.raises(DataError, match=r":2: feature index 10{14} means that 3 rows of 10{14} features") as actual:
        read_table(path, limits=ReadLimits(max_features=10**14))
    assert "would take 1.1 PiB of memory" in str(actual.value)
    path.write_bytes(GOOD * 3)
    with pytest.raises(DataError, match=r"3 rows of 10{14} features would take 1.1 PiB"):
        read_table(path, n_features=10**14)


def test_an_index_out_of_proportion_to_the_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"1 qid:1 1:1 1000000000:1\n")
    with pytest.raises(DataError, match=r":1: feature index 10{9} is out of proportion to 26.0 B of text") as actual:
        read_table(path)
    assert "max_features=1000000000, or give a SciPy sparse matrix" in str(actual.value)
    with pytest.raises(DataError, match=r"feature index 10{9} is above max_features=5"):
        read_table(path, limits=ReadLimits(max_features=5))
    with pytest.raises(DataError, match="out of proportion"):
        next(iter_tables(path, block_bytes=5))


def test_many_rows_made_wide_by_one_are_refused(tmp_path: Path) -> None:
    """The matrix would take 20 GB for 1.2 MB of text; no single block of it is large."""
    path = tmp_path / "train.txt"
    path.write_bytes(b"0 qid:1 1:1\n" * 100_000 + b"0 qid:1 50000:1\n")
    with pytest.raises(DataError, match=r":100001: feature index 50000 is out of proportion"):
        read_table(path)
    with pytest.raises(DataError, match=r":100001: feature index 50000 is out of proportion"):
        list(iter_tables(path, block_bytes=10_000))


def test_an_error_before_an_index_too_large_for_memory_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    huge = b"0 qid:1 1:5 100000000000000:1\n"
    path.write_bytes(GOOD + b"0 qid:1 1:x\n" + huge)
    with pytest.raises(DataError, match=":2: value 'x'"):
        read_table(path)
    path.write_bytes(GOOD + huge + b"0 qid:1 1:x\n")
    with pytest.raises(DataError, match=r":2: feature index 10{14}"):
        read_table(path)


def test_a_wild_index_on_a_wrong_line_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD + b"0 qid:1 100000000000000:1 2:1\n")
    with pytest.raises(DataError, match=r":2: feature index 2 after 10{14}"):
        read_table(path)


def test_strict_refuses_a_query_that_occurs_again(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"0 qid:1 1:5\n#\n0 qid:2 1:5\n\n1 qid:1 1:6\n0 qid:2 1:6\n")
    assert read_table(path).query_ids.tolist() == [1, 2, 1, 2]
    with pytest.raises(DataError, match=":5: query id 1 occurs again after lines of other queries"):
        read_table(path, strict=True)
    path.write_bytes(b"0 qid:a 1:5\n0 qid:a 1:5\n1 qid:b 1:6\n")
    assert read_table(path, strict=True).n_docs == 3


def test_tokens_are_shown_short_and_printable() -> None:
    assert careful.quote(b"\x00\x1b[2J\xff") == r"'\x00\x1b[2J\xff'"
    assert len(careful.quote(b"a" * 10_000)) <= 42


def test_a_wrong_line_deep_in_a_large_piece_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD * 300_000 + b"0 qid:1 1:5 1:5\n" + GOOD * 5)
    with pytest.raises(DataError, match=":300001: feature index 1 twice"):
        read_table(path)


def test_no_memory_is_claimed_by_a_refused_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "available_memory", lambda: 100)
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD * 20)
    with pytest.raises(DataError, match=r":1: feature index 2 means that 20 rows of 2 features would take 160.0 B"):
        read_table(path)
