"""Whatever is in a file: one clear answer, no traceback, no long wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certificates import (
    NOW,
    check,
    failures,
    file_of,
    memory_of,
    refusal,
    signer_of,
    statement_of,
)
from svmemory import EvidenceError
from svmemory.certificate.agreement import check_statement
from svmemory.certificate.canonical import decode, encode
from svmemory.certificate.commitments import Opening
from svmemory.certificate.envelope import open_envelope, seal
from svmemory.certificate.keys import PublicKey, SecretKey
from svmemory.certificate.log import CERTIFICATE_TYPE, Log
from svmemory.certificate.signer import Signer
from svmemory.certificate.verify import Evidence, verify

LAYERS = {"encoding", "signature", "key", "chain", "digest", "optimality", "time"}
FILES = ("certificate", "memory", "log", "known", "opening")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Signer, Evidence]:
    memory, log = memory_of(24), Log()
    signer = signer_of(log=log)
    result = memory.forget(subject="person-2", certificate=signer)
    assert result.certificate is not None
    data = file_of(memory, tmp_path_factory.mktemp("good"))
    evidence = Evidence(
        result.certificate,
        data,
        log.to_bytes(),
        known=log.checkpoints[0],
        opening=result.opening,
    )
    assert check(evidence, signer).conclusion == "verified"
    return signer, evidence


def refused(signer: Signer, evidence: Evidence) -> None:
    found = check(evidence, signer)
    assert found.conclusion == "unverified"
    assert failures(found) <= LAYERS
    json.dumps(found.as_dict(), allow_nan=False)


@given(data=st.binary(max_size=400), name=st.sampled_from(FILES))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_that_mean_nothing(good: tuple[Signer, Evidence], data: bytes, name: str) -> None:
    signer, evidence = good
    refused(signer, replace(evidence, **{name: data}))


@given(document=JSON, name=st.sampled_from(FILES))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_that_means_nothing(good: tuple[Signer, Evidence], document: Any, name: str) -> None:
    signer, evidence = good
    refused(signer, replace(evidence, **{name: json.dumps(document).encode()}))


@given(data=st.data(), name=st.sampled_from(FILES))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_good_files_cut_and_mended(good: tuple[Signer, Evidence], data: Any, name: str) -> None:
    """Pieces taken out, put in twice, or replaced, lengths and all."""
    signer, evidence = good
    whole: bytes = getattr(evidence, name)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 40)))
    piece = data.draw(st.binary(max_size=12) | st.just(whole[start:stop] * 2))
    broken = whole[:start] + piece + whole[stop:]
    if broken != whole:
        refused(signer, replace(evidence, **{name: broken}))


@given(document=st.dictionaries(st.text(max_size=9), JSON, max_size=5))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_trusted_key_on_nonsense(good: tuple[Signer, Evidence], document: Any) -> None:
    signer, evidence = good
    refused_here = refusal(lambda: seal(CERTIFICATE_TYPE, document, signer.key))
    if refused_here is not None:
        assert refused_here.layer == "encoding"  # a float, a lone surrogate, a large number
        return
    certificate = seal(CERTIFICATE_TYPE, document, signer.key)
    refused(signer, replace(evidence, certificate=certificate))


@given(data=st.data(), value=JSON)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_in_any_field(good: tuple[Signer, Evidence], data: Any, value: Any) -> None:
    """A statement with one value replaced by any JSON is refused by name, or is as good as new."""
    statement = statement_of(good[1].certificate)
    place: Any = statement
    while True:
        step = data.draw(
            st.sampled_from(sorted(place))
            if isinstance(place, dict)
            else st.integers(0, len(place) - 1)
        )
        if not isinstance(place[step], dict | list) or not place[step] or data.draw(st.booleans()):
            place[step] = value
            break
        place = place[step]
    error = refusal(lambda: check_statement(statement))
    if error is not None:
        assert error.layer in {"encoding", "digest", "time"}
        assert "statement" in str(error) or "certificate" in str(error)


READERS: list[tuple[str, Callable[[bytes], object]]] = [
    ("decode", lambda data: decode(data, "it")),
    ("log", Log.from_bytes),
    ("opening", Opening.from_bytes),
    ("envelope", lambda data: open_envelope(data, CERTIFICATE_TYPE, [])),
]


@pytest.mark.parametrize("name", [name for name, _ in READERS])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 1000,
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b"9" * 1_000_000,
        b'{"a":' + b"9" * 1_000_000 + b"}",
        b'{"a":1e999999999}',
        b'{"a":NaN}',
        b'{"a":-0}',
        b'{"a":1.0}',
        b'{"a":9007199254740993}',
        b'{"a":1,"a":1}',
        b'{"b":1,"a":1}',
        b'{"a": 1}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\u0041"}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b'{"a":1}\n',
        b'"text"',
        b"[]",
        b"null",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_readers_refuse(name: str, data: bytes) -> None:
    with pytest.raises(EvidenceError) as caught:
        dict(READERS)[name](data)
    assert caught.value.layer == "encoding"
    assert len(str(caught.value)) < 500


def test_a_key_given_twice_is_named_as_such() -> None:
    with pytest.raises(EvidenceError, match="gives a key twice"):
        decode(b'{"a":1,"a":1}', "it")


def test_too_large_is_not_parsed() -> None:
    with pytest.raises(EvidenceError, match="larger than 10 bytes"):
        decode(b'{"a":"' + b"x" * 20 + b'"}', "it", most=10)


@given(document=st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_written_is_read_back_and_nothing_else(document: Any) -> None:
    error = refusal(lambda: encode(document))
    if error is not None:
        assert error.layer == "encoding"
        return
    data = encode(document)
    assert decode(data, "it") == document
    assert encode(decode(data, "it")) == data


@given(data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_key_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(data)
    path.chmod(0o600)
    for load in (PublicKey.load, SecretKey.load):
        with pytest.raises(EvidenceError) as caught:
            load(path)
        assert caught.value.layer == "key"


def test_a_memory_file_of_an_older_certificate_is_only_wrong(
    good: tuple[Signer, Evidence], tmp_path: Path
) -> None:
    signer, evidence = good
    other = file_of(memory_of(5), tmp_path)
    found = verify(replace(evidence, memory=other), [signer.key.public], now=NOW)
    assert failures(found) == {"digest"}
