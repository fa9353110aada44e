"""A certificate is issued, and verified somewhere else by someone who has only files."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from certificates import NOW, check, failures, file_of, memory_of, signer_of, statement_of, verdicts
from svmemory import (
    ContractError,
    ConvergenceError,
    EvidenceError,
    InputError,
    SupportVectorMemory,
    UnknownIdError,
)
from svmemory.certificate import fresh, logfile, verify_state
from svmemory.certificate.commitments import ROW, Opening, commitment
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import Log
from svmemory.certificate.signer import Acceptance, Request, Signer, Sink
from svmemory.certificate.verify import Evidence, verify
from svmemory.demo import GAMMA, NU, load_patients

ELSEWHERE = """
import json, sys
from svmemory.certificate.keys import PublicKey
from svmemory.certificate.verify import Evidence, verify
data = [open(name, "rb").read() for name in ("certificate.json", "retained.svm")]
found = verify(Evidence(*data), [PublicKey.load("officer.pub")])
print(json.dumps(found.as_dict()))
"""


def verified_elsewhere(memory: SupportVectorMemory, subject: str, folder: Path) -> dict[str, str]:
    """Forget a subject here; verify in an empty folder from three files, in a new process."""
    key = SecretKey.generate()
    result = memory.forget(subject=subject, certificate=Signer(key, "Clinic"))
    assert result.certificate is not None
    machine = folder / "another machine"
    machine.mkdir()
    (machine / "certificate.json").write_bytes(result.certificate)
    memory.save(machine / "retained.svm")
    key.public.save(machine / "officer.pub")
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], cwd=machine, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["verdict"] == "verified"
    assert sorted(path.name for path in machine.iterdir()) == [
        "certificate.json",
        "officer.pub",
        "retained.svm",
    ]
    return {one["name"]: one["verdict"] for one in found["checks"]}


def test_the_demo_memory_on_another_machine(tmp_path: Path) -> None:
    held, _ = load_patients()
    memory = SupportVectorMemory.from_nu(NU, len(held.ids), gamma=GAMMA)
    memory.add(held.keys, held.values, ids=held.ids, subjects=held.ids)
    found = verified_elsewhere(memory, held.ids[3], tmp_path)
    assert found.pop("log") == "not run"  # no log was given
    assert set(found.values()) == {"pass"}
    assert {"state digest", "conditions", "fresh solve", "bit-exact"} <= set(found)


def test_a_thousand_embedded_records_on_another_machine(tmp_path: Path, data_dir: Path) -> None:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer

    path = data_dir / "synthea" / "patient_sentences.jsonl.gz"
    if not path.is_file():
        pytest.skip("no synthea/patient_sentences.jsonl.gz in the folder of data sets")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        people = [json.loads(line) for line in itertools.islice(lines, 60)]
    rows = [(one["patient"], text) for one in people for text in one["sentences"]][:1000]
    patients, text = [row[0] for row in rows], [row[1] for row in rows]
    hashed = HashingVectorizer(n_features=4096).transform(text)
    keys = TruncatedSVD(32, random_state=0).fit_transform(hashed)
    assert keys.shape == (1000, 32)
    memory = SupportVectorMemory.from_nu(0.2, 1000, gamma=2.0)
    memory.add(keys, ids=[f"c{i:04d}" for i in range(1000)], subjects=patients)
    found = verified_elsewhere(memory, patients[500], tmp_path)
    assert found.pop("log") == "not run"
    assert set(found.values()) == {"pass"}


def test_issue_and_verify_with_log_and_opening(tmp_path: Path) -> None:
    memory, log = memory_of(), Log()
    signer = signer_of(log=log)
    first = memory.forget(subject="person-2", certificate=signer)
    second = memory.prune(certificate=signer)
    assert first.certificate is not None
    assert second.certificate is not None
    evidence = Evidence(
        second.certificate, file_of(memory, tmp_path), log.to_bytes(), opening=second.opening
    )
    found = check(evidence, signer)
    assert found.conclusion == "verified"
    names = verdicts(found)
    assert names["certificate in the log"] == names["opening"] == "pass"
    assert names["removed rows absent"] == "pass"
    identity = statement_of(second.certificate)["predicate"]["identity"]
    assert identity["sequence"] == "1"
    assert identity["previous"] is not None
    assert statement_of(second.certificate)["predicateType"] == "https://svmemory.org/prune/v1"


def test_every_field_of_the_request_is_in_the_certificate() -> None:
    memory = memory_of()
    received = NOW - timedelta(days=3)
    signer = signer_of(
        request=Request("R-17", received, "erasure request", "the officer"),
        validation=Acceptance("A. Rahm", "data-protection officer", NOW),
        sinks=(Sink("mirror", "not reached", "replicates at night"),),
    )
    before = memory.partition
    result = memory.forget(ids=["row-0003", "row-0007"], certificate=signer)
    assert result.certificate is not None
    predicate = statement_of(result.certificate)["predicate"]
    assert predicate["request"] == {
        "id": "R-17",
        "received": "2026-02-26T12:00:00Z",
        "completed": "2026-03-01T12:00:00Z",
        "ground": "erasure request",
        "authoriser": "the officer",
    }
    assert predicate["validation"]["by"] == "A. Rahm"
    assert {"sink": "mirror", "state": "not reached", "note": "replicates at night"} in predicate[
        "scope"
    ]
    after = predicate["state"]["after"]
    assert after["digest"] == f"sha256:{memory.digest()}"
    assert after["rows"] == "58"
    assert int(after["margin"]) == len(memory.partition.margin)
    assert int(predicate["state"]["before"]["error"]) == len(before.error)
    assert sorted(row["set"] for row in predicate["removed"]) == sorted(result.former.values())
    assert float.fromhex(predicate["contract"]["gamma"]) == memory.contract.gamma
    kkt = memory.kkt()
    assert float.fromhex(predicate["optimality"]["residual"]) == kkt.residual
    assert float.fromhex(predicate["optimality"]["gap"]) == kkt.gap
    assert predicate["equality"]["bitExact"] is True
    assert predicate["equality"]["digest"] == f"sha256:{memory.digest()}"


def test_nothing_of_a_removed_row_is_in_the_certificate() -> None:
    memory = memory_of()
    place = memory.ids.index("row-0006")
    key, values = memory.keys[place], memory.values
    assert values is not None
    result = memory.forget(subject="person-2", certificate=signer_of())
    assert result.certificate is not None
    assert result.opening is not None
    payload = json.dumps(statement_of(result.certificate)).encode()
    for data in (result.certificate, payload):
        for secret in (b"row-0006", b"person-2", key.tobytes(), values[place].tobytes()):
            assert secret not in data
        for number in (*key, *values[place]):
            assert float(number).hex().encode() not in data
    assert b"row-0006" in result.opening  # the control: it would have been found
    # A guess needs the salt: the same text committed to in another certificate differs.
    opening = Opening.from_bytes(result.opening)
    assert commitment(opening.salt, ROW, "row-0006").encode() in payload
    assert commitment(bytes(32), ROW, "row-0006").encode() not in payload


def test_the_state_before_cannot_be_tested_by_guessing() -> None:
    memory = memory_of()
    digest = memory.digest()
    result = memory.forget(ids="row-0003", certificate=signer_of())
    assert result.certificate is not None
    assert result.opening is not None
    assert digest not in json.dumps(statement_of(result.certificate))
    assert Opening.from_bytes(result.opening).digest == f"sha256:{digest}"


@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_down_to_the_last_row(n: int, tmp_path: Path) -> None:
    memory, signer = memory_of(n), signer_of()
    for name in memory.ids:
        result = memory.forget(ids=name, certificate=signer)
        assert result.certificate is not None
        found = check(Evidence(result.certificate, file_of(memory, tmp_path)), signer)
        assert found.conclusion == "verified", found.checks
    assert statement_of(result.certificate)["predicate"]["state"]["after"]["status"] == "empty"


def test_left_for_later_is_said_and_then_done(tmp_path: Path) -> None:
    memory, signer = memory_of(), signer_of(check="later")
    result = memory.forget(ids="row-0001", certificate=signer)
    assert result.certificate is not None
    equality = statement_of(result.certificate)["predicate"]["equality"]
    assert (equality["check"], equality["digest"], equality["bitExact"]) == ("later", None, None)
    alone = check(Evidence(result.certificate), signer)
    assert alone.conclusion == "pending"
    assert verdicts(alone)["issuer's fresh solve"] == "warn"
    found = check(Evidence(result.certificate, file_of(memory, tmp_path)), signer)
    assert found.conclusion == "verified"
    assert verdicts(found)["fresh solve"] == "pass"


def test_too_large_for_a_solve_is_confirmed_at_its_sets(tmp_path: Path, monkeypatch) -> None:
    memory, signer = memory_of(), signer_of(check="later")
    result = memory.forget(ids="row-0001", certificate=signer)
    assert result.certificate is not None
    evidence = Evidence(result.certificate, file_of(memory, tmp_path))
    monkeypatch.setattr(fresh, "MOST_ROWS", 10)
    told = memory_of().forget(ids="row-0001", certificate=signer_of(check="now")).certificate
    assert told is not None
    equality = statement_of(told)["predicate"]["equality"]
    assert (equality["check"], equality["bitExact"]) == ("later", None)
    assert "more than the 10" in equality["note"]
    found = check(evidence, signer)
    assert (verdicts(found)["fresh solve"], verdicts(found)["bit-exact"]) == ("not run", "pass")
    assert found.conclusion == "verified"
    monkeypatch.setattr(fresh, "MOST_MARGIN", 1)
    found = check(evidence, signer)
    assert (verdicts(found)["fresh solve"], verdicts(found)["bit-exact"]) == ("not run", "not run")
    assert found.conclusion == "pending"


def test_a_solver_that_does_not_arrive_says_nothing(tmp_path: Path, monkeypatch) -> None:
    def lost(*_: object) -> None:
        raise ConvergenceError("lost")

    memory, signer = memory_of(), signer_of()
    monkeypatch.setattr(fresh.interior, "solve", lost)
    result = memory.forget(ids="row-0001", certificate=signer)
    assert result.certificate is not None
    equality = statement_of(result.certificate)["predicate"]["equality"]
    assert (equality["bitExact"], "lost" in equality["note"]) == (None, True)
    evidence = Evidence(result.certificate, file_of(memory, tmp_path))
    found = check(evidence, signer)
    assert (verdicts(found)["fresh solve"], verdicts(found)["bit-exact"]) == ("not run", "pass")
    monkeypatch.setattr(fresh.exact, "canonical", lost)
    assert check(evidence, signer).conclusion == "pending"


def test_outside_its_window_it_is_not_valid() -> None:
    memory, signer = memory_of(), signer_of(valid_days=30)
    certificate = memory.forget(ids="row-0001", certificate=signer).certificate
    assert certificate is not None
    trusted = [signer.key.public]
    for days, verdict in ((-1, "fail"), (0, "pass"), (29, "pass"), (31, "fail")):
        found = verify(Evidence(certificate), trusted, now=NOW + timedelta(days=days))
        assert verdicts(found)["validity"] == verdict
        assert (found.conclusion == "unverified") == (verdict == "fail")


def test_the_wrong_rows_are_told_apart(tmp_path: Path) -> None:
    memory, signer = memory_of(), signer_of()
    before = file_of(memory, tmp_path)
    result = memory.forget(ids="row-0001", certificate=signer)
    assert result.certificate is not None
    found = check(Evidence(result.certificate, before, opening=result.opening), signer)
    assert found.conclusion == "unverified"
    names = verdicts(found)
    assert names["state digest"] == names["rows' Merkle root"] == names["sizes"] == "fail"
    assert names["removed rows absent"] == "fail"
    assert failures(found) == {"digest"}


def test_other_rows_of_a_subject_are_pointed_out(tmp_path: Path) -> None:
    memory, signer = memory_of(), signer_of()
    result = memory.forget(ids="row-0003", certificate=signer)  # person-1 has three rows
    assert result.certificate is not None
    evidence = Evidence(result.certificate, file_of(memory, tmp_path), opening=result.opening)
    found = check(evidence, signer)
    assert verdicts(found)["removed rows absent"] == "warn"
    reason = next(one.reason for one in found.checks if one.name == "removed rows absent")
    assert "2 of" in reason
    assert found.conclusion == "verified"
    rest = memory.forget(subject="person-1", certificate=signer)
    assert rest.certificate is not None
    evidence = Evidence(rest.certificate, file_of(memory, tmp_path), opening=rest.opening)
    assert verdicts(check(evidence, signer))["removed rows absent"] == "pass"


def test_another_certificates_opening_does_not_fit() -> None:
    memory, signer = memory_of(), signer_of()
    one = memory.forget(ids="row-0001", certificate=signer)
    other = memory.forget(ids="row-0002", certificate=signer)
    assert one.certificate is not None
    found = check(Evidence(one.certificate, opening=other.opening), signer)
    assert verdicts(found)["opening"] == "fail"


# -- the deletion and its certificate stand or fall together --------------------------------------


class Unwritable(Log):
    """A log on a full disk."""

    def append(self, entry: bytes) -> int:
        raise OSError(28, "No space left on device")


def test_without_a_certificate_no_deletion() -> None:
    memory = memory_of()
    memory.add([[9.0, 9.0, 9.0]], [[1.0, 1.0]], ids=["a-late-row"])
    digest, ids, subjects = memory.digest(), memory.ids, memory.subjects
    with pytest.raises(OSError, match="No space"):
        memory.forget(ids=["row-0003", "row-0007"], certificate=signer_of(log=Unwritable()))
    assert (memory.digest(), memory.ids, memory.subjects) == (digest, ids, subjects)
    with pytest.raises(OSError, match="No space"):
        memory.prune(certificate=signer_of(log=Unwritable()))
    assert (memory.digest(), memory.ids, memory.subjects) == (digest, ids, subjects)
    assert memory.forget(ids="row-0003", certificate=signer_of()).removed == ["row-0003"]
    assert memory.exactness().proved


def test_a_log_that_cannot_be_used_stops_the_deletion(tmp_path: Path) -> None:
    memory, bad = memory_of(), tmp_path / "log"
    bad.write_bytes(b"not a log")
    with pytest.raises(EvidenceError, match="no svmemory log"):
        memory.forget(ids="row-0003", certificate=signer_of(log=bad))
    assert "row-0003" in memory
    assert bad.read_bytes() == b"not a log"


def test_a_log_file_that_cannot_be_written_undoes_the_deletion(tmp_path: Path, monkeypatch) -> None:
    """The file is written last, when everything else has been done."""
    memory, path, signer = memory_of(), tmp_path / "log", signer_of(log=tmp_path / "log")
    memory.forget(ids="row-0001", certificate=signer)
    digest, ids, before = memory.digest(), memory.ids, path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logfile.file, "write", full)
    with pytest.raises(OSError, match="No space"):
        memory.forget(ids="row-0003", certificate=signer)
    assert (memory.digest(), memory.ids, path.read_bytes()) == (digest, ids, before)
    monkeypatch.undo()
    assert memory.forget(ids="row-0003", certificate=signer).removed == ["row-0003"]
    assert memory.exactness().proved


def test_anothers_log_stops_the_deletion(tmp_path: Path) -> None:
    memory, path = memory_of(), tmp_path / "log"
    owner = signer_of(log=path)
    memory.forget(ids="row-0001", certificate=owner)
    before = path.read_bytes()
    stranger = signer_of(log=path)
    with pytest.raises(EvidenceError, match="belongs to another key"):
        memory.forget(ids="row-0003", certificate=stranger)
    assert "row-0003" in memory
    assert path.read_bytes() == before
    assert memory.forget(ids="row-0003", certificate=owner).certificate is not None


def test_names_of_the_world_are_plain_text() -> None:
    """Persian with a joiner, Japanese with a wide space, Arabic, accents: none is refused."""
    persian, japanese = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u5c71\u3000\u592a"
    for name in (persian, japanese, "\u0645\u0633\u062a", "Zoë Ångström"):
        certificate = memory_of(6).forget(ids="row-0001", certificate=signer_of(issuer=name))
        assert certificate.certificate is not None
        identity = statement_of(certificate.certificate)["predicate"]["identity"]
        assert identity["issuer"] == name


def test_a_log_in_a_file_keeps_its_name_and_grows(tmp_path: Path) -> None:
    memory, path = memory_of(), tmp_path / "log"
    signer = signer_of(log=path, origin="clinic deletions")
    certificates = [
        memory.forget(ids=f"row-{i:04d}", certificate=signer).certificate for i in (1, 2)
    ]
    other = signer_of(signer.key, log=path, issuer="Another name")
    certificates.append(memory.forget(ids="row-0005", certificate=other).certificate)
    log = Log.from_bytes(path.read_bytes())
    assert log.entries == certificates
    assert certificates[0] is not None
    found = check(Evidence(certificates[0], log=path.read_bytes()), signer)
    assert verdicts(found)["log history"] == "pass"


def test_a_memory_on_disk(tmp_path: Path) -> None:
    """The cold tier: certified deletions, one that fails, and the same bytes as in memory."""
    warm, signer = memory_of(), signer_of()
    cold = SupportVectorMemory.from_contract(warm.contract, cold=tmp_path)
    cold.add(warm.keys, warm.values, ids=warm.ids, subjects=warm.subjects)
    cold.header = warm.header
    with pytest.raises(OSError, match="No space"):
        cold.forget(ids="row-0003", certificate=signer_of(log=Unwritable()))
    assert cold.digest() == warm.digest()
    result = cold.forget(ids="row-0003", certificate=signer)
    assert result.certificate is not None
    warm.forget(ids="row-0003")
    found = check(Evidence(result.certificate, file_of(warm, tmp_path)), signer)
    assert found.conclusion == "verified"


def test_a_header_that_is_no_json_is_refused_and_nothing_is_lost() -> None:
    memory = memory_of()
    memory.header = {"x": object()}
    with pytest.raises(InputError, match="JSON"):
        memory.forget(ids="row-0003", certificate=signer_of())
    assert "row-0003" in memory


def test_pruning_says_that_it_is_about_now() -> None:
    result = memory_of().prune(certificate=signer_of())
    assert result.certificate is not None
    predicate = statement_of(result.certificate)["predicate"]
    assert "given them weight again" in predicate["limits"][-1]
    assert float.fromhex(predicate["operation"]["leastSlack"]) == result.slack
    assert {row["set"] for row in predicate["removed"]} == {"reserve"}


def test_an_issuer_does_not_sign_a_wrong_state(monkeypatch) -> None:
    memory, digest = memory_of(), memory_of().digest()

    def wrong(rows, contract):
        return fresh.FreshSolve("sha256:" + 64 * "0", 0.1, 0.1, 3)

    monkeypatch.setattr(fresh, "solve_afresh", wrong)
    with pytest.raises(EvidenceError, match="another digest") as caught:
        memory.forget(ids="row-0003", certificate=signer_of())
    assert caught.value.layer == "optimality"
    assert memory.digest() == digest


def test_nothing_removed_is_nothing_certified() -> None:
    memory, log = memory_of(), Log()
    result = memory.forget(ids="nobody", missing="ignore", certificate=signer_of(log=log))
    assert (result.removed, result.certificate, result.opening) == ([], None, None)
    assert len(log) == 0
    with pytest.raises(UnknownIdError):
        memory.forget(ids="nobody", certificate=signer_of())
    assert memory.prune(certificate=signer_of()).certificate is not None
    assert memory.prune(certificate=signer_of()).certificate is None


def test_unusable_signers_and_contracts() -> None:
    memory = SupportVectorMemory(gamma=1.0, C=0.5, ridge=0.0)
    memory.add(np.arange(6.0)[:, None])
    with pytest.raises(ContractError, match="ridge > 0"):
        memory.forget(ids="1", certificate=signer_of())
    assert "1" in memory
    with pytest.raises(InputError, match="takes a Signer"):
        memory_of().forget(ids="row-0001", certificate=SecretKey.generate())  # type: ignore[arg-type]
    for options, message in (
        ({"issuer": " "}, "issuer"),
        ({"check": "never"}, "check"),
        ({"valid_days": 0}, "valid_days"),
        ({"sinks": (Sink("x", "gone", "y"),)}, "unknown state"),
        ({"sinks": (Sink("backups", "reached", "y"),)}, "can only be not reached or not ours"),
        ({"issuer": "Clinic\u202egro"}, r"issuer holds the control character U\+202E"),
        ({"request": Request(id="R\n17")}, r"request holds the control character U\+000A"),
        ({"request": Request(ground="\x9b2J")}, r"ground holds the control character U\+009B"),
        ({"request": Request(authoriser="a\u2067")}, r"authoriser holds .* U\+2067"),
        ({"request": Request(id="")}, "request is empty"),
        ({"request": Request(ground=" ")}, "ground is empty"),
    ):
        with pytest.raises(InputError, match=message):
            signer_of(**options)
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(EvidenceError, match="zone"):
        memory_of().forget(ids="row-0001", certificate=signer_of(request=Request(received=naive)))
    with pytest.raises(EvidenceError, match=r"request\.ground"):
        memory_of().forget(ids="row-0001", certificate=signer_of(request=Request(ground="x" * 501)))


def test_a_memory_without_ridge_is_not_verified(tmp_path: Path) -> None:
    memory = SupportVectorMemory(gamma=1.0, C=0.5, ridge=0.0)
    memory.add(np.arange(6.0)[:, None])
    state = verify_state.read_state(file_of(memory, tmp_path))
    other, signer = memory_of(), signer_of()
    certificate = other.forget(ids="row-0001", certificate=signer).certificate
    assert certificate is not None
    found = verify_state.verify_state(state, statement_of(certificate)["predicate"])
    assert found[0].verdict == "fail"
