"""One byte is changed, everywhere in turn: each change is caught and named by its layer."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from certificates import (
    NOW,
    changed,
    check,
    failures,
    file_of,
    leaves,
    memory_of,
    signer_of,
    statement_of,
    verdicts,
)
from svmemory import InputError, file
from svmemory.certificate.canonical import encode
from svmemory.certificate.envelope import seal
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import CERTIFICATE_TYPE, Log
from svmemory.certificate.optimality import judge, optimality_document, weighted_sums
from svmemory.certificate.signer import Signer
from svmemory.certificate.state import StateRecord
from svmemory.certificate.statement import LIMITS
from svmemory.certificate.verify import Evidence, Verification, verify


@dataclass
class Case:
    """Good evidence of a deletion, the second in its log."""

    signer: Signer
    evidence: Evidence

    def check(self, **altered: Any) -> Verification:
        """Verify all of it, with some files altered."""
        return check(replace(self.evidence, **altered), self.signer)

    def alone(self, **altered: Any) -> Verification:
        """Verify the certificate with the altered files and no others."""
        return check(Evidence(self.evidence.certificate, **altered), self.signer)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    memory, log = memory_of(24), Log()
    signer = signer_of(log=log)
    memory.forget(subject="person-2", certificate=signer)
    kept = log.checkpoints[-1]
    result = memory.forget(subject="person-5", certificate=signer)
    assert result.certificate is not None
    evidence = Evidence(
        result.certificate,
        file_of(memory, tmp_path_factory.mktemp("case")),
        log.to_bytes(),
        known=kept,
        opening=result.opening,
    )
    found = check(evidence, signer)
    assert found.conclusion == "verified"
    assert {one.verdict for one in found.checks} == {"pass"}
    return Case(signer, evidence)


def flipped(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def masks(place: int) -> int:
    """Another bit for every place: a letter's case, its last bit, its top bit, or all of it."""
    return (0x01, 0x20, 0x80, 0x02, 0xFF)[place % 5]


def caught(found: Verification, layers: set[str], where: str) -> None:
    assert found.conclusion == "unverified", where
    assert failures(found), where
    assert failures(found) <= layers, (where, failures(found))
    assert all(one.reason for one in found.checks)


# -- byte by byte ---------------------------------------------------------------------------------


def test_every_byte_of_the_certificate(case: Case) -> None:
    data = case.evidence.certificate
    regions = {
        name: data.index(b'"' + name.encode() + b'":"') + len(name) + 4
        for name in ("payload", "payloadType", "keyid", "sig")
    }
    for place in range(len(data)):
        found = case.check(certificate=flipped(data, place, masks(place)))
        layers = {"encoding"}
        if regions["payload"] <= place < data.index(b'"', regions["payload"]):
            layers = {"encoding", "signature"}  # not base64 any more, or other bytes
        elif regions["sig"] <= place < data.index(b'"', regions["sig"]):
            layers = {"encoding", "signature"}
        elif regions["keyid"] <= place < data.index(b'"', regions["keyid"]):
            layers = {"encoding", "key"}
        caught(found, layers, f"byte {place}")


def test_every_byte_of_the_state_file(case: Case) -> None:
    data = case.evidence.memory
    assert data is not None
    body = 8 + int.from_bytes(data[:8], "little")
    named = {"encoding": 0, "digest": 0}
    for place in range(len(data)):
        found = case.alone(memory=flipped(data, place, masks(place)))
        caught(found, {"encoding", "digest"}, f"byte {place}")
        for layer in failures(found):
            named[layer] += 1
        if place >= body:  # numbers and names: nearly all of them still make a file
            assert failures(found) <= {"digest", "encoding"}
    assert min(named.values()) > 100


def test_every_number_of_the_state_file_by_name(case: Case) -> None:
    assert case.evidence.memory is not None
    content = file.from_bytes(case.evidence.memory)
    rows = content.rows
    assert rows is not None
    for name in ("keys", "values", "b"):
        array = getattr(rows, name)
        for index in np.ndindex(array.shape):
            other = array.copy()
            other[index] = np.nextafter(other[index], 2.0)
            data = file.to_bytes(replace(content, rows=replace(rows, **{name: other})))
            caught(case.alone(memory=data), {"digest"}, f"{name}{index}")
    data = file.to_bytes(replace(content, rows=replace(rows, mu=np.nextafter(rows.mu, 9.0))))
    caught(case.check(memory=data), {"digest"}, "mu")
    data = file.to_bytes(replace(content, header={**content.header, "note": "x"}))
    found = case.check(memory=data)
    caught(found, {"digest"}, "header")
    assert verdicts(found)["file header"] == "fail"


def test_bytes_of_the_log(case: Case) -> None:
    data = case.evidence.log
    assert data is not None
    layers = {"encoding", "signature", "key", "chain"}
    for place in range(0, len(data), 9):
        caught(case.alone(log=flipped(data, place, masks(place))), layers, f"byte {place}")


def test_every_byte_of_a_kept_checkpoint(case: Case) -> None:
    data = case.evidence.known
    assert data is not None
    for place in range(len(data)):
        found = case.alone(log=case.evidence.log, known=flipped(data, place, masks(place)))
        caught(found, {"encoding", "signature", "key"}, f"byte {place}")
        assert verdicts(found)["known checkpoint"] == "fail"


def test_every_byte_of_the_opening(case: Case) -> None:
    data = case.evidence.opening
    assert data is not None
    for place in range(len(data)):
        found = case.alone(opening=flipped(data, place, masks(place)))
        caught(found, {"encoding", "digest"}, f"byte {place}")


# -- field by field -------------------------------------------------------------------------------


def one_byte(value: Any) -> Any:
    """The same kind of value with one byte changed."""
    if isinstance(value, str):
        middle = len(value) // 2
        letter = "1" if value[middle : middle + 1] == "0" else "0"
        return value[:middle] + letter + value[middle + 1 :]
    return not value if isinstance(value, bool) else "0"


def with_statement(certificate: bytes, statement: Any) -> bytes:
    """The envelope with another payload under the old signature."""
    envelope = json.loads(certificate)
    envelope["payload"] = base64.b64encode(encode(statement)).decode()
    return encode(envelope)


def test_every_field_under_the_old_signature_and_under_a_strangers(case: Case) -> None:
    statement, stranger = statement_of(case.evidence.certificate), SecretKey.generate()
    paths = leaves(statement)
    assert len(paths) > 80
    for path in paths:
        other = changed(statement, path, one_byte)
        certificate = with_statement(case.evidence.certificate, other)
        caught(case.check(certificate=certificate), {"signature"}, str(path))
        certificate = seal(CERTIFICATE_TYPE, other, stranger)
        caught(case.check(certificate=certificate), {"key"}, str(path))


LIES = (
    (("subject", 0, "digest", "sha256"), {"digest"}),
    (("predicate", "identity", "key"), {"key"}),
    (("predicate", "contract", "gamma"), {"digest"}),
    (("predicate", "contract", "mass"), {"digest"}),
    (("predicate", "contract", "ridge"), {"digest"}),
    (("predicate", "contract", "scaler"), {"digest"}),
    (("predicate", "contract", "kernel"), {"digest"}),
    (("predicate", "state", "after", "root"), {"digest"}),
    (("predicate", "state", "after", "header"), {"digest"}),
    (("predicate", "state", "after", "rows"), {"digest"}),
    (("predicate", "state", "after", "margin"), {"digest"}),
    (("predicate", "state", "before", "digest"), {"digest"}),
    (("predicate", "state", "before", "root"), {"digest"}),
    (("predicate", "removed", 0, "id"), {"digest"}),
    (("predicate", "removed", 0, "subject"), {"digest"}),
    (("predicate", "equality", "digest"), {"optimality"}),
    (("predicate", "identity", "sequence"), {"chain"}),
    (("predicate", "identity", "previous"), {"chain"}),
    (("predicate", "schema"), {"encoding"}),
    (("_type",), {"encoding"}),
    (("predicateType",), {"encoding"}),
)


@pytest.mark.parametrize(("path", "layers"), LIES, ids=lambda value: str(value)[:60])
def test_a_lying_issuer(case: Case, path: tuple[Any, ...], layers: set[str]) -> None:
    """The holder of the trusted key changes a field and signs again: the files contradict him."""
    other = changed(statement_of(case.evidence.certificate), path, lie)
    certificate = seal(CERTIFICATE_TYPE, other, case.signer.key)
    found = case.check(certificate=certificate)
    assert found.conclusion == "unverified"
    assert layers <= failures(found)
    # It is not the entry of the log either.
    assert failures(found) <= layers | {"chain"}


def lie(value: Any) -> Any:
    """Another value of the same form."""
    if value.startswith("0x"):
        return (float.fromhex(value) * 2.0).hex()
    return str(int(value) + 1) if value.isdigit() and len(value) < 9 else one_byte(value)


@pytest.mark.parametrize("name", ["residual", "gap", "scoreBound", "offset"])
def test_a_lying_issuers_figures(case: Case, name: str) -> None:
    path = ("predicate", "optimality", name)
    statement = statement_of(case.evidence.certificate)
    other = changed(statement, path, lambda value: (float.fromhex(value) + 1e-6).hex())
    found = case.check(certificate=seal(CERTIFICATE_TYPE, other, case.signer.key))
    assert verdicts(found)["figures of optimality"] == "fail"
    assert failures(found) == {"optimality", "chain"}


def certificate_for(case: Case, state: StateRecord) -> bytes:
    """A dishonest certificate that fits a state: signed by the trusted key, digests in order."""
    statement = statement_of(case.evidence.certificate)
    assert state.rows is not None
    statement["subject"][0]["digest"]["sha256"] = state.digest.removeprefix("sha256:")
    predicate = statement["predicate"]
    predicate["state"]["after"] |= state.sizes() | {"digest": state.digest, "root": state.root}
    predicate["state"]["before"] |= {
        name: str(int(count) + (3 if name in ("rows", "error") else 0))
        for name, count in state.sizes().items()
    }
    figures = judge(state.rows, state.contract, weighted_sums(state.rows, state.contract))
    predicate["optimality"] = optimality_document(figures)
    predicate["equality"]["digest"] = state.digest
    return seal(CERTIFICATE_TYPE, statement, case.signer.key)


@pytest.mark.parametrize(
    ("shift", "failing"),
    [
        (1e-3, {"conditions", "fresh solve", "bit-exact"}),
        (1e-9, {"conditions", "fresh solve", "bit-exact"}),
        (2.0**-52, {"fresh solve", "bit-exact"}),  # within any tolerance of floating point
    ],
)
def test_weights_that_are_not_the_optimum(case: Case, shift: float, failing: set[str]) -> None:
    """Everything is signed and every digest is right; only the weights are not the optimum."""
    assert case.evidence.memory is not None
    content = file.from_bytes(case.evidence.memory)
    assert content.rows is not None
    b = content.rows.b.copy()
    one, other = np.flatnonzero((b > 0.1) & (b < 0.9))[:2]
    b[one] += shift
    b[other] -= shift
    state = StateRecord(content.contract, replace(content.rows, b=b), content.header)
    digest = state.digest.removeprefix("sha256:")
    data = file.to_bytes(replace(content, rows=state.rows, digest=digest))
    certificate = certificate_for(case, state)
    found = verify(Evidence(certificate, data), [case.signer.key.public], now=NOW)
    assert failures(found) == {"optimality"}
    assert {one.name for one in found.checks if one.verdict == "fail"} == failing
    assert found.conclusion == "unverified"
    # The control: the same construction with the true weights passes.
    honest = StateRecord(content.contract, content.rows, content.header)
    certificate = certificate_for(case, honest)
    evidence = Evidence(certificate, case.evidence.memory)
    assert verify(evidence, [case.signer.key.public], now=NOW).conclusion == "verified"


@pytest.mark.parametrize("name", ["keys", "values", "b"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -1e300])
def test_numbers_that_no_memory_holds(case: Case, name: str, number: float) -> None:
    """Signed, and every digest right: NaN must not slip through a comparison."""
    assert case.evidence.memory is not None
    content = file.from_bytes(case.evidence.memory)
    assert content.rows is not None
    array = getattr(content.rows, name).copy()
    array.flat[0] = number
    rows = replace(content.rows, **{name: array})
    digest = StateRecord(content.contract, rows, content.header).digest
    data = file.to_bytes(replace(content, rows=rows, digest=digest.removeprefix("sha256:")))
    found = case.alone(memory=data)
    assert failures(found) == {"digest"}
    assert "not from" in next(one.reason for one in found.checks if one.verdict == "fail")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("predicate", "removed"), [], "no row"),
        (("predicate", "state", "before", "rows"), "99", "add up"),
        (("predicate", "state", "after", "status"), "empty", "status"),
        (("predicate", "optimality"), None, "optimality"),
        (("predicate", "request", "received"), "2027-01-01T00:00:00Z", "this order"),
        (("predicate", "validity", "notAfter"), "2020-01-01T00:00:00Z", "before it begins"),
        (("predicate", "removed", 0, "weight"), "cap", "has the weight"),
        (("predicate", "removed", 0, "set"), "error", "has the weight"),
        (("predicate", "equality", "bitExact"), False, "another state"),
        (("predicate", "equality", "weightDeviation"), (1e-9).hex(), "another state"),
        (("predicate", "identity", "previous"), None, "first certificate"),
        (("predicateType",), "https://svmemory.org/prune/v1", "pruned"),
        (("subject",), [], "exactly one"),
        (("predicate", "extra"), "x", "not a known field"),
        (("predicate", "operation", "events"), 8, "string"),
        (("predicate", "operation", "events"), "08", "decimal"),
        (("predicate", "optimality", "gap"), "0x1p-3", "C99 hex"),
        (("predicate", "optimality", "gap"), "inf", "C99 hex"),
        (("predicate", "identity", "time"), "2026-13-01T00:00:00Z", "UTC"),
        (("predicate", "identity", "issuer"), "", "not empty"),
        (("predicate", "identity", "issuer"), "a\u202eb", "U+202E"),
        (("predicate", "request", "id"), "a\x1b[2J", "U+001B"),
        (("predicate", "request", "ground"), "a\u2066b", "U+2066"),
        (("predicate", "request", "authoriser"), "a\nb", "U+000A"),
        (("predicate", "identity", "id"), "x" * 81, "longer"),
        (("predicate", "contract"), None, "object"),
        (("predicate", "limits"), {}, "list"),
        (("predicate", "limits"), [], "not the limits"),
        (("predicate", "limits"), list(LIMITS[:-1]), "not the limits"),
        (("predicate", "limits"), [*LIMITS[:-1], "It proves everything."], "not the limits"),
        (("predicate", "scope"), [], "live state, memory files, log, backups, upstream"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_statement_that_cannot_be_true(
    case: Case, path: tuple[Any, ...], value: Any, message: str
) -> None:
    """Signed by the trusted key; the row of the first commitment was on the margin."""
    statement = statement_of(case.evidence.certificate)
    rows = statement["predicate"]["removed"]
    rows.sort(key=lambda row: row["set"] != "margin")
    place = statement
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    certificate = seal(CERTIFICATE_TYPE, statement, case.signer.key)
    found = verify(Evidence(certificate), [case.signer.key.public], now=NOW)
    assert found.conclusion == "unverified"
    reasons = [one.reason for one in found.checks if one.verdict == "fail"]
    assert any(message in reason for reason in reasons), reasons


def resigned(case: Case, *changes: tuple[tuple[Any, ...], Any]) -> Verification:
    """What is found of the certificate alone, changed and signed again by the trusted key."""
    statement = statement_of(case.evidence.certificate)
    for path, value in changes:
        statement = changed(statement, path, lambda _, value=value: value)
    certificate = seal(CERTIFICATE_TYPE, statement, case.signer.key)
    return verify(Evidence(certificate), [case.signer.key.public], now=NOW)


@pytest.mark.parametrize(
    ("sink", "state", "message"),
    [
        ("backups", "reached", "'backups', which can only be not reached or not ours"),
        ("upstream", "reached", "'upstream', which can only be not reached or not ours"),
        ("live state", "not reached", "'live state', which can only be reached"),
        ("Backups ", "reached", "which is written 'backups'"),
    ],
)
def test_a_scope_that_no_deletion_has(case: Case, sink: str, state: str, message: str) -> None:
    scope = statement_of(case.evidence.certificate)["predicate"]["scope"]
    claim = {"sink": sink, "state": state, "note": "x"}
    known = [one["sink"] for one in scope]
    if sink in known:
        scope[known.index(sink)] = claim
    else:
        scope.append(claim)
    found = resigned(case, (("predicate", "scope"), scope))
    assert failures(found) == {"encoding"}
    assert message in found.checks[2].reason


def test_each_sink_is_named_and_only_once(case: Case) -> None:
    scope = statement_of(case.evidence.certificate)["predicate"]["scope"]
    for place, one in enumerate(scope):
        found = resigned(case, (("predicate", "scope"), scope[:place] + scope[place + 1 :]))
        assert found.checks[2].reason.endswith(f"deletion reached: {one['sink']}")
        found = resigned(case, (("predicate", "scope"), [*scope, one]))
        assert "names a sink twice" in found.checks[2].reason
    mirror = {"sink": "mirror", "state": "reached", "note": "replicates"}
    found = resigned(case, (("predicate", "scope"), [*scope, mirror]))
    assert not failures(found)  # the control: a place of the issuer's own is the issuer's word


REQUEST, IDENTITY = ("predicate", "request"), ("predicate", "identity")
VALIDITY = ("predicate", "validity")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([((*IDENTITY, "time"), "2026-03-01T12:05:01Z")], "certified 2026-03-01T12:05:01Z: that"),
        (
            [
                ((*REQUEST, "completed"), "2026-05-01T00:00:00Z"),
                ((*IDENTITY, "time"), "2026-05-01T00:00:00Z"),
            ],
            "request completed 2026-05-01T00:00:00Z, certified 2026-05-01T00:00:00Z: that is in",
        ),
        ([((*IDENTITY, "time"), "2030-01-01T00:00:00Z")], "outside its own validity"),
        ([((*VALIDITY, "notBefore"), "2026-03-01T12:00:01Z")], "outside its own validity"),
        ([((*REQUEST, "completed"), "2026-03-01T11:59:59Z")], "in this order"),
        ([((*REQUEST, "completed"), "2026-03-01T12:00:01Z")], "in this order"),
        ([((*REQUEST, "received"), "2026-03-01T12:00:01Z")], "in this order"),
        ([((*VALIDITY, "notAfter"), "2026-02-01T00:00:00Z")], "before it begins"),
        (
            [
                (
                    ("predicate", "validation"),
                    {"by": "x", "role": "y", "time": "2026-03-01T12:05:01Z", "note": "z"},
                )
            ],
            "accepted after it was signed",
        ),
    ],
)
def test_times_that_cannot_be_true(
    case: Case, changes: list[tuple[tuple[Any, ...], Any]], message: str
) -> None:
    found = resigned(case, *changes)
    assert found.conclusion == "unverified"
    assert failures(found) == {"time"}
    assert message in next(one.reason for one in found.checks if one.verdict == "fail")


@pytest.mark.parametrize("field", [(*VALIDITY, "notAfter"), (*IDENTITY, "time")])
def test_the_end_of_the_calendar(case: Case, field: tuple[str, ...]) -> None:
    found = resigned(case, (field, "9999-12-31T23:59:59Z"))
    assert (failures(found) == {"time"}) == (field[-1] == "time")


def test_clocks_may_differ_by_five_minutes(case: Case) -> None:
    found = resigned(case, ((*IDENTITY, "time"), "2026-03-01T12:05:00Z"))
    assert verdicts(found)["times"] == "pass"
    assert failures(found) == set()


def test_a_figure_is_called_equal_only_if_it_is(case: Case) -> None:
    """Sums in another order may differ in the last place, and that is said."""
    path = ("predicate", "optimality", "gap")
    honest = statement_of(case.evidence.certificate)
    assert case.evidence.memory is not None
    rows = file.from_bytes(case.evidence.memory).rows
    assert rows is not None
    contract = file.from_bytes(case.evidence.memory).contract
    equal = optimality_document(judge(rows, contract, weighted_sums(rows, contract)))
    for figures, reason in (
        (equal, "computed again and equal"),
        (
            equal | {"gap": (float.fromhex(equal["gap"]) + 1e-13).hex()},
            "computed again and within the tolerance of 1.5e-11",
        ),
    ):
        statement = changed(honest, path[:-1], lambda _, figures=figures: figures)
        certificate = seal(CERTIFICATE_TYPE, statement, case.signer.key)
        evidence = Evidence(certificate, case.evidence.memory)
        found = verify(evidence, [case.signer.key.public], now=NOW)
        assert verdicts(found)["figures of optimality"] == "pass"
        said = next(one.reason for one in found.checks if one.name == "figures of optimality")
        assert said.startswith(reason)


def test_layers_are_looked_at_in_the_order_of_trust(case: Case) -> None:
    """A payload is not parsed before its signature holds."""
    envelope = json.loads(case.evidence.certificate)
    envelope["payload"] = base64.b64encode(b"\xff not JSON").decode()
    found = case.check(certificate=encode(envelope))
    assert failures(found) == {"signature"}
    assert found.statement is None
    assert [one.verdict for one in found.checks] == ["fail", "not run"]


def test_trust_comes_from_outside(case: Case) -> None:
    stranger = SecretKey.generate().public
    for trusted, layer in (([], "key"), ([stranger], "key")):
        found = verify(case.evidence, trusted, now=NOW)
        assert failures(found) == {layer}
    with pytest.raises(InputError, match="zone"):
        verify(case.evidence, [stranger], now=NOW.replace(tzinfo=None))
    with pytest.raises(InputError, match="of a log"):
        verify(replace(case.evidence, log=None), [stranger], now=NOW)
    both = [stranger, case.signer.key.public]
    assert verify(case.evidence, both, now=NOW).conclusion == "verified"
