"""The byte scan: it finds what is there in any form, and calls nothing absent that it missed."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import os
import socket
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import COLUMNS, RANGES, Run, in_folder, refused
from svmemory import SupportVectorMemory
from svmemory.errors import InputError
from svmemory.scan import ScanReport, ScanRow, files, scan
from svmemory.scan.letters import Letters
from svmemory.scan.needles import NUMBER_FORMS, encodings, pieces, varied
from svmemory.scan.opaque import looks_random
from svmemory.scan.rowfile import rows_of, rows_of_json
from svmemory.scan.search import Searcher

RNG = np.random.default_rng(7)
KEYS = RNG.standard_normal((6, 12))
GONE = ScanRow("patient-gone", KEYS[0], np.array([1.25, 2.5, 3.75, -0.125]), "person-gone")
LIVE = [ScanRow(f"patient-{i}", KEYS[i], KEYS[i][:3], f"person-{i}") for i in range(1, 6)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds the live rows."""
    where = tmp_path / "store"
    (where / "deep" / "er").mkdir(parents=True)
    data = b"".join(row.key.tobytes() + row.id.encode() for row in LIVE)
    (where / "deep" / "live.bin").write_bytes(b"head" + data)
    return where


def look(folder: Path, *rows: ScanRow) -> ScanReport:
    return scan(folder, rows or [GONE], LIVE)


# --- presence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("form", NUMBER_FORMS)
def test_numbers_are_found_in_every_encoding(folder: Path, part: str, form: str) -> None:
    data = np.asarray(getattr(GONE, part), np.float64).astype(NUMBER_FORMS[form]).tobytes()
    assert look(folder).verdict == "absent"
    (folder / "deep" / "er" / "page").write_bytes(b"\x01" * 1234 + data + b"tail")
    report = look(folder)
    assert report.verdict == "found"
    assert {(one.part, one.encoding) for one in report.found} == {(part, form)}
    for one in report.found:
        assert one.rows == ("patient-gone",)
        assert one.places[0].file == os.path.join("deep", "er", "page")
        assert one.places[0].offset == 1234


@pytest.mark.parametrize("text", ["patient-gone", "person-gone"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be"])
def test_texts_are_found(folder: Path, text: str, codec: str) -> None:
    (folder / "page").write_bytes(b'{"id":"' + text.encode(codec) + b'"}')
    report = look(folder)
    assert [one.part for one in report.found] == ["id" if text == GONE.id else "subject"]
    assert report.verdict == "found"


def test_the_name_of_a_file_counts(folder: Path) -> None:
    (folder / "patient-gone.json").write_bytes(b"")
    (found,) = look(folder).found
    assert (found.places[0].file, found.places[0].offset) == ("patient-gone.json", None)


@pytest.mark.parametrize("kind", ["folder", "link", "target", "pipe", "root", "below"])
def test_every_name_counts_once(folder: Path, kind: str) -> None:
    root, place = folder, os.path.join("deep", "patient-gone")
    if kind in ("folder", "below"):
        (folder / place).mkdir()
    if kind == "below":
        (folder / place / "file").write_bytes(b"")
    elif kind == "link":
        (folder / place).symlink_to("live.bin")
    elif kind == "target":
        place = os.path.join("deep", "link")
        (folder / place).symlink_to("patient-gone")
    elif kind == "pipe":
        os.mkfifo(folder / place)
    elif kind == "root":
        root, place = folder.rename(folder.parent / "patient-gone"), "patient-gone"
    report = look(root)
    (found,) = report.found
    assert (report.verdict, found.part, found.occurrences) == ("found", "id", 1)
    assert (found.places[0].file, found.places[0].offset) == (place, None)


def test_a_key_is_found_as_it_was_before_scaling(folder: Path) -> None:
    row = ScanRow("a", KEYS[0], None, None, raw=np.array([61.5, 82.25, 17.0]))
    assert row.raw is not None
    (folder / "page").write_bytes(row.raw.astype("<f4").tobytes())
    (found,) = look(folder, row).found
    assert (found.part, found.encoding) == ("raw key", "float32 little-endian")


def test_what_is_left_of_a_long_row_is_found(folder: Path) -> None:
    row = ScanRow("a", RNG.standard_normal(400))
    (folder / "page").write_bytes(b"x" * 10 + row.key.tobytes()[700:1400])
    (found,) = look(folder, row).found
    assert (found.encoding, found.of) == ("float64 little-endian", 50)
    # 700 bytes hold ten whole pieces of 64, whatever their place.
    assert found.pieces == found.occurrences == 10


def test_a_row_cut_over_the_pages_of_a_database_is_found(tmp_path: Path) -> None:
    row = ScanRow("a", RNG.standard_normal(1500))
    with sqlite3.connect(tmp_path / "db") as base:
        base.execute("create table t (data blob)")
        base.execute("insert into t values (?)", [row.key.tobytes()])
    base.close()
    assert row.key.tobytes() not in (tmp_path / "db").read_bytes()
    report = scan(tmp_path, [row])
    assert report.verdict == "found"
    assert report.found[0].pieces > 100


def test_every_occurrence_is_counted_once_over_all_blocks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needle = GONE.key.astype("<f4").tobytes()
    starts = [3, 100, 148, 1000, 1021 * 5, 9000]
    data = bytearray(10_000)
    for start in starts:
        data[start : start + len(needle)] = needle
    (folder / "page").write_bytes(data)
    for block in (1, 7, 47, 48, 49, 1021, 1 << 20):
        monkeypatch.setattr(files, "BLOCK", block)
        (found,) = look(folder).found
        assert found.occurrences == len(starts)
        assert [place.offset for place in found.places] == starts[:5]


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="holes are not told on this system")
def test_a_file_with_holes_is_read_around_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ScanRow("gone", KEYS[0, :8])
    data, size = gone.key.tobytes(), 1 << 40  # a terabyte, of which some kilobytes are there
    page = 1 << 16
    with open(folder / "sparse", "wb") as stream:
        stream.truncate(size)
        for start in (page, size // 2 - 20, size - len(data)):
            stream.seek(start)
            stream.write(data)
    if (folder / "sparse").stat().st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no holes")
    (found,) = look(folder, gone).found
    assert [place.offset for place in found.places] == [page, size // 2 - 20, size - len(data)]
    # Zeros that a needle begins or ends with may lie in the hole.
    row = ScanRow("with-zeros", np.array([0.0, 0.0, 1.1, 2.2, 0.0, 0.0]))
    with open(folder / "edges", "wb") as stream:
        stream.truncate(64 * page)
        stream.seek(8 * page)
        stream.write(row.key[2:4].tobytes().ljust(4096, b"\0"))
        stream.seek(33 * page - 16)
        stream.write(row.key[2:4].tobytes())
    for block in (4096, 1 << 22):
        monkeypatch.setattr(files, "BLOCK", block)
        (found,) = look(folder, row).found
        assert [place.offset for place in found.places] == [8 * page - 16, 33 * page - 32]


@given(st.lists(st.binary(min_size=8, max_size=12), min_size=1, max_size=8, unique=True), st.data())
def test_the_search_agrees_with_a_plain_one(needles: list[bytes], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from(needles) | st.binary(max_size=5), max_size=12))
    hay = b"".join(parts)
    plain = {
        (i, at)
        for i, needle in enumerate(needles)
        for at in range(len(hay))
        if hay[at : at + len(needle)] == needle
    }
    assert set(Searcher(needles).find(hay)) == plain


def test_more_matches_than_a_batch_and_matches_at_the_very_edges() -> None:
    needle = b"abcdefgh"
    assert len(list(Searcher([needle]).find(needle * 70_000))) == 70_000
    assert list(Searcher([needle]).find(needle)) == [(0, 0)]
    assert list(Searcher([needle]).find(needle[:-1])) == []
    assert list(Searcher([needle]).find(b"")) == []
    overlapping = Searcher([b"xyxyxyxy"])
    assert list(overlapping.find(b"xy" * 6)) == [(0, 0), (0, 2), (0, 4)]
    assert list(Searcher([]).find(b"abc")) == []
    with pytest.raises(ValueError, match="at least 8"):
        Searcher([b"short"])


# --- what is not looked for --------------------------------------------------------------------


def omitted(report: ScanReport) -> dict[tuple[str, str], str]:
    return {(one.part, one.encoding): one.why for one in report.omitted}


def test_short_needles_are_named_and_not_looked_for(folder: Path) -> None:
    row = ScanRow("p17", np.array([1.1, 2.2]), None, "s1")
    why = omitted(look(folder, row))
    assert set(why) == {
        ("key", "float16 little-endian"),
        ("key", "float16 big-endian"),
        ("id", "UTF-8"),
        ("id", "UTF-16 little-endian"),
        ("id", "UTF-16 big-endian"),
        ("subject", "UTF-8"),
        ("subject", "UTF-16 little-endian"),
        ("subject", "UTF-16 big-endian"),
    }
    assert all("shorter than 8 bytes" in reason for reason in why.values())


def test_padding_is_not_taken_for_a_row(folder: Path) -> None:
    row = ScanRow("a-long-name", np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0]))
    (folder / "zeros").write_bytes(bytes(100_000) + np.array([0.0, 1.0, 0.0, 0.0]).tobytes())
    report = look(folder, row)
    assert report.found == ()
    assert report.unsearchable == ("a-long-name",)
    assert report.verdict == "not shown"
    assert "nothing of the numbers of a-long-name" in report.doubts[0]
    assert "nearly all bytes the same" in omitted(report)["key", "float64 little-endian"]


def test_the_parts_of_a_sparse_row_that_vary_are_looked_for(folder: Path) -> None:
    key = np.zeros(64)
    key[50] = np.pi
    row = ScanRow("sparse", key)
    (folder / "zeros").write_bytes(bytes(100_000))
    assert look(folder, row).verdict == "absent"
    (folder / "page").write_bytes(key.tobytes())
    (found,) = look(folder, row).found
    assert (found.encoding, found.of) == ("float64 little-endian", 1)


def test_numbers_too_large_for_an_encoding(folder: Path) -> None:
    row = ScanRow("large-row", np.array([1e6, -2e5, 3.25e7, 1.5, 7.5]))
    why = omitted(look(folder, row))
    assert why["key", "float16 big-endian"] == "too large for this encoding"
    assert ("key", "float32 big-endian") not in why


def test_what_live_rows_share_is_left_out_and_said(folder: Path) -> None:
    # The subject has other rows, the id begins a live one's, the value is a live row's.
    row = ScanRow("patient-", KEYS[0], LIVE[1].value, "person-3")
    (folder / "page").write_bytes(b"patient- person-3" + LIVE[1].value.tobytes())  # type: ignore[union-attr]
    report = look(folder, row)
    why = omitted(report)
    for form in [("id", "UTF-8"), ("subject", "UTF-8"), ("value", "float64 little-endian")]:
        assert why[form] == "live rows hold the same bytes"
    assert report.shared == 10  # two texts in 3 encodings, a value in 4
    assert report.verdict == "absent"
    (folder / "page").write_bytes(row.key.tobytes())
    assert look(folder, row).verdict == "found"


def test_a_row_with_a_live_twin_cannot_be_shown_to_be_gone(folder: Path) -> None:
    twin = ScanRow("another-name", LIVE[0].key)
    report = look(folder, twin)
    assert (report.verdict, report.unsearchable) == ("not shown", ("another-name",))


def test_bytes_over_the_edge_of_two_live_rows_are_not_shared() -> None:
    row = ScanRow("some-name", np.concatenate([LIVE[0].key[-4:], LIVE[1].key[:4]]))
    report = scan(__file__, [row], LIVE)
    assert report.shared == 0


# --- absence is shown --------------------------------------------------------------------------


def test_a_control_is_seen_before_anything_is_called_absent(folder: Path) -> None:
    report = look(folder)
    assert report.verdict == "absent"
    assert report.control is not None
    assert report.control.shown
    assert {one.encoding for one in report.control.seen if one.part == "key"} == {
        "float64 little-endian"
    }
    (folder / "deep" / "live.bin").unlink()
    (folder / "names").write_text("patient-1 patient-2")  # names alone show nothing of numbers
    report = look(folder)
    assert report.control is not None
    assert (report.verdict, report.control.shown) == ("not shown", False)
    assert "the control failed" in report.doubts[0]


def test_without_live_rows_nothing_is_called_absent(folder: Path) -> None:
    report = scan(folder, [GONE])
    assert (report.verdict, report.control) == ("not shown", None)
    assert "no control" in report.doubts[0]
    assert "--live MEMORY" in report.doubts[0]
    (folder / "page").write_bytes(GONE.key.tobytes())
    assert scan(folder, [GONE]).verdict == "found"


def test_a_control_vouches_for_the_files_that_it_was_seen_in(folder: Path) -> None:
    (folder / "innocent.txt").write_text("nothing of ours")
    report = look(folder)
    assert report.control is not None
    assert (report.verdict, report.files, report.control.files) == ("absent", 2, 1)
    (folder / "copy").write_bytes(LIVE[0].key.tobytes())
    report = look(folder)
    assert report.control is not None
    assert report.control.files == 2
    # A name that a control row has left shows nothing of numbers.
    (folder / "patient-1").write_bytes(b"")
    report = look(folder)
    assert report.control is not None
    assert (report.files, report.control.files) == (4, 2)


def test_compressed_files_leave_a_doubt(folder: Path) -> None:
    (folder / "backup.gz").write_bytes(gzip.compress(GONE.key.tobytes() + bytes(1000)))
    report = look(folder)
    assert report.compressed == (("backup.gz", "gzip"),)
    assert report.verdict == "not shown"
    assert "backup.gz (gzip)" in report.doubts[0]


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (zlib.compress(b"x", 0), "zlib"),
        (zlib.compress(b"x", 3), "zlib"),
        (zlib.compress(b"x", 6), "zlib"),
        (zlib.compress(b"x", 9), "zlib"),
        (bz2.compress(b"x"), "bzip2"),
        (lzma.compress(b"x"), "xz"),
        (lzma.compress(b"x", format=lzma.FORMAT_ALONE), "lzma"),
        (b"\x1f\x9d\x90", "compress (.Z)"),
        (b"Rar!\x1a\x07\x01\x00", "rar"),
        (b"\x02\x21\x4c\x18", "lz4"),
        (b"\xff\x06\x00\x00sNaPpY", "snappy"),
        (b"ARROW1\x00\x00", "Arrow"),
        (b"Obj\x01", "Avro"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"%PDF-1.4", "PDF"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
    ],
)
def test_formats_in_which_bytes_are_not_seen(folder: Path, start: bytes, kind: str) -> None:
    (folder / "file").write_bytes(start)
    report = look(folder)
    assert report.compressed == (("file", kind),)
    assert report.verdict == "not shown"


def test_what_looks_random_may_be_encrypted(folder: Path) -> None:
    random = np.random.default_rng(3).bytes(5000)
    (folder / "sealed").write_bytes(b"head" * 300 + random)
    report = look(folder)
    assert report.compressed == (("sealed", "looks random"),)
    assert report.verdict == "not shown"
    text = Path(__file__).read_bytes()
    for compressed in (zlib.compress(text), lzma.compress(text), bz2.compress(text)):
        (folder / "sealed").write_bytes(b"head" + compressed)
        assert look(folder).verdict == "not shown"


@pytest.mark.parametrize("code", ["<f8", "<f4", "<f2", ">f8"])
def test_numbers_and_texts_do_not_look_random(code: str) -> None:
    numbers = np.random.default_rng(4).standard_normal(50_000).astype(code)
    assert not looks_random(np.frombuffer(numbers.tobytes(), np.uint8))
    assert not looks_random(np.frombuffer(Path(__file__).read_bytes(), np.uint8))
    random = np.frombuffer(np.random.default_rng(5).bytes(1 << 20), np.uint8)
    for start in range(0, len(random), 512):
        assert looks_random(random[start : start + 512])
    assert not looks_random(random[:511])


def test_a_store_with_encrypted_rows_leaves_a_doubt(folder: Path) -> None:
    from svmemory import Contract
    from svmemory.store import Store

    def put(name: str, encrypted: bool) -> None:
        path = folder.parent / name
        with Store(f"sqlite:///{path}", vault=f"sqlite:///{folder.parent / 'vault.db'}") as store:
            memory = store.create(name, Contract.from_cap(0.3, 0.3), encrypted=encrypted)
            memory.add(np.array([row.key for row in LIVE]), ids=[row.id for row in LIVE])
        os.replace(path, folder / name)

    put("plain.db", False)
    assert look(folder).verdict == "absent"
    put("sealed.db", True)
    report = look(folder)
    assert report.compressed == (("sealed.db", "store with encrypted rows"),)
    assert report.verdict == "not shown"


def test_an_empty_folder_shows_nothing(tmp_path: Path) -> None:
    report = scan(tmp_path, [GONE], LIVE)
    assert report.verdict == "not shown"
    assert report.doubts[-1] == "there was no file to read"


def test_only_files_are_read(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(GONE.key.tobytes())
    (folder / "link").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    address = socket.socket(socket.AF_UNIX)
    address.bind(os.path.relpath(folder / "socket"))
    report = look(folder)
    address.close()
    assert report.verdict == "absent"  # and it did not hang
    assert {(one.path, one.why) for one in report.skipped} == {
        ("link", "a link, not followed"),
        ("loop", "a link, not followed"),
        ("dangling", "a link, not followed"),
        ("pipe", "a pipe"),
        ("socket", "a socket"),
    }
    assert scan(folder / "link", [GONE]).verdict == "found"  # a link that is named is meant


def test_a_file_that_turns_into_a_pipe_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    walk = files.walk

    def as_if_files(root: str) -> Iterator[files.Name | files.File | files.Skipped]:
        yield from walk(root)
        yield files.File(os.path.join(root, "pipe"), "pipe")

    monkeypatch.setattr("svmemory.scan.reading.walk", as_if_files)
    report = look(folder)
    assert "no regular file any more" in report.skipped[-1].why
    assert report.verdict == "not shown"


def test_a_file_that_cannot_be_read_leaves_a_doubt(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secret").write_bytes(b"x")
    real = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    report = look(folder)
    assert report.verdict == "not shown"
    assert report.doubts == ["not read: secret"]
    assert report.skipped[0].why == "cannot be read (Permission denied)"


def test_names_that_are_no_text_can_be_reported(folder: Path) -> None:
    name = os.fsencode(folder) + b"/\xff\xfe"
    with open(name, "wb") as stream:
        stream.write(GONE.key.tobytes())
    (found,) = look(folder).found
    assert found.places[0].file == "\\xff\\xfe"
    json.dumps(look(folder).as_dict()).encode()


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one row"):
        scan(tmp_path, [])
    with pytest.raises(InputError, match="is not there"):
        scan(tmp_path / "nowhere", [GONE])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no file or folder"):
        scan(tmp_path / "pipe", [GONE])


# --- needles -----------------------------------------------------------------------------------


def test_encodings_of_a_row_are_those_of_struct() -> None:
    import struct

    found = {f"{one.form.part} as {one.form.encoding}": one.data for one in encodings(GONE)}
    numbers = [float(x) for x in GONE.value]  # type: ignore[union-attr]
    assert found["value as float64 little-endian"] == struct.pack("<4d", *numbers)
    assert found["value as float32 big-endian"] == struct.pack(">4f", *numbers)
    assert found["value as float16 big-endian"] == struct.pack(">4e", *numbers)
    assert found["id as UTF-8"] == b"patient-gone"
    assert len(found) == 2 * 6 + 2 * 3


def test_an_id_inside_of_a_certificate_would_be_found(folder: Path) -> None:
    statement = json.dumps({"removed": ["x", GONE.id], "key": GONE.key.tobytes().hex()})
    payload = base64.b64encode(statement.encode()).decode()
    (folder / "certificate.json").write_text(json.dumps({"payload": payload}))
    (found,) = look(folder).found
    assert (found.part, found.encoding) == ("id", "base64 of UTF-8")
    (folder / "certificate.json").write_bytes(base64.b64encode(b"abcd" + GONE.key.tobytes()))
    (found,) = look(folder).found
    assert (found.part, found.encoding) == ("key", "base64 of float64 little-endian")


def written(data: bytes, kind: str) -> bytes:
    """Bytes in base64, as different programs write it."""
    text = base64.b64encode(data)
    if kind == "url-safe":
        return base64.urlsafe_b64encode(data)
    if kind == "JSON":
        return text.replace(b"/", b"\\/")
    if kind == "MIME":
        return base64.encodebytes(data)
    width, end = (64, b"\r\n") if kind == "PEM" else (76, b"\\r\\n")
    return end.join(text[i : i + width] for i in range(0, len(text), width))


@pytest.mark.parametrize("kind", ["plain", "url-safe", "JSON", "MIME", "PEM", "MIME in JSON"])
@pytest.mark.parametrize("part", ["key", "id"])
def test_base64_is_found_however_it_is_written(folder: Path, kind: str, part: str) -> None:
    data = GONE.key.astype(">f4").tobytes() if part == "key" else b"patient-gone"
    encoding = "base64 of " + ("float32 big-endian" if part == "key" else "UTF-8")
    random = np.random.default_rng(6)
    for before in range(60):
        text = written(random.bytes(before) + data + random.bytes(50), kind)
        (folder / "page").write_bytes(b'{"data":"' + text + b'"}')
        (found,) = look(folder).found
        assert (found.part, found.encoding, found.occurrences) == (part, encoding, 1)


def test_names_that_differ_in_their_last_bits_are_told_apart_in_base64(folder: Path) -> None:
    row, live = ScanRow("visit-05", KEYS[0]), [ScanRow("visit-04", KEYS[1])]
    (folder / "live").write_bytes(live[0].key.tobytes())
    for before in range(3):
        for name, verdict in (("visit-05", "found"), ("visit-04", "absent")):
            text = base64.b64encode(b"z" * before + name.encode() + b",")
            (folder / "page").write_bytes(b'"' + text + b'"')
            assert scan(folder, [row], live).verdict == verdict


@given(
    st.lists(st.integers(0, 255), min_size=8, max_size=70, unique=True).map(bytes),
    st.binary(max_size=5),
    st.binary(max_size=5),
    st.integers(1, 40),
    st.integers(0, 20),
)
def test_base64_is_found_once_over_all_blocks(
    data: bytes, before: bytes, after: bytes, block: int, front: int
) -> None:
    text = b"," * front + base64.encodebytes(before + data + after) + b"."
    letters = Letters(Searcher([data]))
    places = []
    for start in range(0, len(text), block):
        fresh = np.frombuffer(text[start : start + block], np.uint8)
        places += [place for _, place in letters.find(fresh, start)]
    first = len(before) * 8 // 6  # the letter in which the data begin; lines have 76
    assert places == [front + first + first // 76]


def test_two_texts_beside_each_other_are_not_one(folder: Path) -> None:
    text = base64.b64encode(GONE.key.tobytes()).decode()
    (folder / "page").write_text(f'["{text[:64]}","{text[64:]}"]')
    row = ScanRow("short", KEYS[0][:7])
    assert look(folder, row).verdict == "absent"
    (folder / "page").write_text(f'["{text[:64]}{text[64:]}"]')
    assert look(folder, row).verdict == "found"


@given(st.binary(min_size=1, max_size=400))
def test_pieces_cover_a_needle(data: bytes) -> None:
    covered = bytearray(len(data))
    at = 0
    for piece in pieces(data):
        at = data.index(piece, at)
        covered[at : at + len(piece)] = b"\x01" * len(piece)
        assert len(piece) == min(len(data), 64)
    assert all(covered) or len(set(data)) < len(data)  # index() may find an earlier copy


def test_varied_counts_bytes_besides_the_commonest() -> None:
    assert varied(bytes(8)) == 0
    assert varied(b"aabbbcd") == 4


# --- the memory, and the command line ----------------------------------------------------------


def test_a_saved_memory_holds_its_rows_until_they_are_forgotten(tmp_path: Path) -> None:
    memory = SupportVectorMemory(gamma=0.3, C=0.1)
    names = [f"record-{i:04d}" for i in range(40)]
    memory.add(
        RNG.standard_normal((40, 5)), RNG.standard_normal((40, 2)), names, [n[::-1] for n in names]
    )
    rows = rows_of(memory)
    memory.save(tmp_path / "m.svm")
    before = scan(tmp_path, rows[:10], rows[10:])
    assert {name for one in before.found for name in one.rows} == set(names[:10])
    memory.forget(ids=names[:10])
    memory.save(tmp_path / "m.svm")
    after = scan(tmp_path, rows[:10], rows_of(memory))
    assert (after.verdict, after.found) == ("absent", ())
    assert after.control is not None
    assert after.control.shown


@pytest.fixture
def run(capsys: Any, tmp_path: Path, monkeypatch: Any) -> Run:
    return in_folder(tmp_path, capsys, monkeypatch)


@pytest.fixture
def forgotten(run: Run) -> Path:
    """A folder ``store`` with a memory that has forgotten the person s1; before.svm beside it."""
    os.mkdir("store")
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "before.svm")
    run("forget", "before.svm", "--subject", "s1", "-o", "store/m.svm")
    return Path("store")


def test_scan_command(run: Run, forgotten: Path) -> None:
    rows = ("--row", "before.svm", "--live", "store/m.svm")
    ran = run("scan", "store", *rows)
    assert ran.code == 0, ran.out + ran.err
    assert "rows     3 rows (003, 004, 005)" in ran.out
    assert "control  live 3 rows" in ran.out
    assert "key as float64 little-endian" in ran.out
    assert ran.out.endswith("absent: no occurrence in any file\n")
    Path("store/backup.svm").write_bytes(Path("before.svm").read_bytes())
    ran = run("scan", "store", *rows)
    assert ran.code == 1
    assert "FOUND 1 row (003): key as float64 little-endian: backup.svm at " in ran.out
    document = run("scan", "store", *rows, "--json").document
    assert document["verdict"] == "found"
    assert document["control"]["shown"] is True
    assert {name for one in document["found"] for name in one["rows"]} == {"003", "004", "005"}


def test_scan_command_takes_a_table_and_json(run: Run, forgotten: Path) -> None:
    table = run("scan", "store", "--row", "p.csv", "--subject", "s1", "--live", "store/m.svm")
    assert table.code == 0, table.out + table.err
    assert "3 rows (003, 004, 005)" in table.out
    found = run("scan", "before.svm", "--row", "p.csv", "--id", "004", "--live", "store/m.svm")
    assert found.code == 1
    assert "FOUND 1 row (004): key as float64" in found.out
    key = SupportVectorMemory.load("before.svm").keys[4].tolist()
    Path("row.json").write_text(json.dumps({"id": 4, "key": key}))
    assert run("scan", "before.svm", "--row", "row.json").code == 1
    without = run("scan", "store", "--row", "row.json")
    assert without.code == 3
    assert "doubt: no control" in without.out
    assert run("scan", "store", "--row", "row.json", "--live", "store/m.svm").code == 0


def test_a_row_file_inside_the_folder_is_a_doubt(run: Run, forgotten: Path) -> None:
    os.rename("before.svm", "store/before.svm")
    os.link("store/before.svm", "store/link.svm")
    rows = ("scan", "store", "--row", "store/before.svm", "--live", "store/m.svm")
    ran = run(*rows)
    assert ran.code == 3
    assert "note: before.svm not read: given as input" in ran.out
    assert "note: link.svm not read: given as input" in ran.out
    assert "doubt: the file that the rows came from lies here" in ran.out
    assert (
        "before.svm, link.svm; move it away, or say that it may stay (--keep-row-file)" in ran.out
    )
    ran = run(*rows, "--keep-row-file")
    assert ran.code == 0, ran.out
    assert "note: before.svm not read: given as input" in ran.out
    Path("store/copy.svm").write_bytes(Path("store/before.svm").read_bytes())
    assert run(*rows, "--keep-row-file").code == 1


def leak(memory: str, name: str) -> None:
    """Put a file with the key of a row of a memory into the folder."""
    held = SupportVectorMemory.load(memory)
    Path("store/leak.bin").write_bytes(held.keys[held.ids.index(name)].tobytes())


def test_an_id_that_is_held_again_with_another_row(run: Run, forgotten: Path) -> None:
    lines = Path("p.csv").read_text().splitlines()
    lines[4] = lines[4].replace("003,s1,", "003,s1,1")  # another heart rate
    Path("p.csv").write_text("\n".join(lines) + "\n")
    run("build", "p.csv", *COLUMNS, *RANGES, "-o", "store/m.svm", "--force")
    rows = ("scan", "store", "--row", "before.svm", "--live", "store/m.svm")
    ran = run(*rows)
    assert ran.code == 0, ran.out + ran.err
    assert "rows     1 row (003)" in ran.out
    leak("before.svm", "003")
    ran = run(*rows)
    assert ran.code == 1
    assert "FOUND 1 row (003): key as float64" in ran.out


def test_rows_without_ids_are_numbered_as_build_does(run: Run, forgotten: Path) -> None:
    columns = ("--key", "HR,SBP", "--value", "sick", "--subject", "person")
    run("build", "p.csv", *columns, *RANGES, "-o", "all.svm")
    run("forget", "all.svm", "--subject", "s1", "-o", "store/m.svm", "--force")
    rows = ("scan", "store", "--row", "p.csv", "--live", "store/m.svm")
    ran = run(*rows)
    assert ran.code == 0, ran.out + ran.err
    assert "rows     3 rows (3, 4, 5)" in ran.out
    leak("all.svm", "4")
    ran = run(*rows, "--id", "4")
    assert ran.code == 1
    assert "FOUND 1 row (4): key as float64" in ran.out
    # A memory built again without the person gives all later rows other numbers.
    lines = Path("p.csv").read_text().splitlines()
    Path("rest.csv").write_text("\n".join(lines[:4] + lines[7:]) + "\n")
    run("build", "rest.csv", *columns, *RANGES, "-o", "store/m.svm", "--force")
    for file in ("p.csv", "all.svm"):
        scanned = ("scan", "store", "--row", file, "--live", "store/m.svm")
        ran = run(*scanned)
        assert ran.code == 1, ran.out
        assert "rows     3 rows (3, 4, 5)" in ran.out  # all others are held, by other numbers
        assert "FOUND 1 row (4): key as float64" in ran.out
        os.rename("store/leak.bin", "leak.bin")
        ran = run(*scanned)
        assert ran.code == 0, ran.out
        os.rename("leak.bin", "store/leak.bin")


def test_a_table_is_searched_as_it_is_and_scaled(run: Run, forgotten: Path) -> None:
    rows = ("scan", "store", "--row", "p.csv", "--live", "store/m.svm")
    _, *lines = (line.split(",") for line in Path("p.csv").read_text().splitlines())
    for i, code in ((4, 1), (10, 0)):  # row 10 is held
        raw = np.array([float(x) for x in lines[i][2:4]])
        Path("store/raw.bin").write_bytes(b"x" + raw.tobytes())
        ran = run(*rows)
        assert ran.code == code, ran.out
    Path("store/raw.bin").write_bytes(np.array([float(x) for x in lines[4][2:4]]).tobytes())
    assert "FOUND 1 row (004): raw key as float64 little-endian: raw.bin at 0" in run(*rows).out


def test_scan_command_says_when_it_shows_nothing(run: Run, forgotten: Path) -> None:
    os.mkdir("other")
    Path("other/file").write_bytes(b"nothing")
    ran = run("scan", "other", "--row", "before.svm", "--live", "store/m.svm")
    assert ran.code == 3
    assert "the control failed" in ran.out
    assert "not shown" in ran.out
    assert run("scan", "other", "--row", "before.svm", "--live", "store/m.svm", "--json").code == 3


def test_scan_command_refuses_bad_input(run: Run, forgotten: Path) -> None:
    refused(run("scan", "store", "--row", "p.csv"), "give the memory with --live")
    refused(
        run("scan", "store", "--row", "store/m.svm", "--live", "store/m.svm"), "holds every row"
    )
    refused(run("scan", "nowhere", "--row", "before.svm"), "is not there")
    refused(run("scan", "store", "--row", "before.svm", "--id", "x"), "no row with that --id")
    refused(run("scan", "store", "--row", "none.json"), "none.json")
    Path("empty.json").write_text("[]")
    refused(run("scan", "store", "--row", "empty.json", "--live", "store/m.svm"), "holds no row")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no row"),
        ("{", "neither JSON"),
        ("[" * 100_000, "neither JSON"),
        ("[]", "holds no row"),
        ("[1]", "row 1 is no object"),
        ('{"id": "a"}', "has no 'key'"),
        ('{"key": [1]}', "has no 'id'"),
        ('{"id": "a", "key": []}', "key is empty"),
        ('{"id": "a", "key": ["1"]}', "list of numbers"),
        ('{"id": "a", "key": [true]}', "list of numbers"),
        ('{"id": "a", "key": [NaN]}', "not finite"),
        ('{"id": "a", "key": [1e999]}', "not finite"),
        ('{"id": "a", "key": [1' + "0" * 400 + "]}", "not finite"),
        ('{"id": ["a"], "key": [1]}', "id must be a text"),
        ('{"id": "a", "subject": 1.5, "key": [1]}', "subject must be a text"),
        ('{"id": "a", "key": [1], "keys": [1]}', "unknown field 'keys'"),
        ('{"id": "a", "key": [1]}\n{"id": "b"}', "row 2 has no 'key'"),
    ],
)
def test_rows_in_json_are_read_strictly(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(InputError, match=why):
        scan(tmp_path, rows_of_json(path))


def test_rows_in_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"id": 1, "key": [1, 2.5]}\n\n{"id": "b", "key": [3], "value": 4, "subject": 5}\n'
    )
    one, two = rows_of_json(path)
    assert (one.id, one.key.tolist(), one.value, one.subject) == ("1", [1.0, 2.5], None, None)
    assert two.value is not None
    assert (two.id, two.value.tolist(), two.subject) == ("b", [4.0], "5")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        rows_of_json(path)
