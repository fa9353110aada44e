"""Certificates issued by a store: in the deletion's transaction, chained in the store's own log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stores import CONTRACT, never_saw, people
from svmemory import Contract
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.log import Log
from svmemory.certificate.logcheck import verify_log
from svmemory.certificate.signer import Request, Signer
from svmemory.errors import ContractError, EvidenceError, InputError
from svmemory.store import Store

KEY = SecretKey.generate()
SIGNER = Signer(KEY, "Example Hospital", check="later")


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def call() -> Store:
        opened.append(Store(tmp_path / "s.db"))
        return opened[-1]

    yield call
    for store in opened:
        store.close()


def test_certificates_are_chained_in_the_log_of_the_store(opener: Callable[[], Store]) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(60)))
    signer = SIGNER.for_request(Request("case 1", ground="erasure request"))
    first = memory.forget(subject="person-001", certificate=signer)
    second = opener().open("m").forget(ids="row-0000", certificate=SIGNER)
    third = memory.prune(certificate=SIGNER)
    assert [x.position for x in (first, second, third)] == [0, 1, 2]
    log = opener().open("m").log()
    assert log.entries == [first.certificate, second.certificate, third.certificate]
    assert len(log.checkpoints) == 3
    again = Log.from_bytes(log.to_bytes())
    checks = verify_log(again, trusted=[KEY.public], known=log.checkpoints[0])
    assert {check.verdict for check in checks} == {"pass"}
    kept = memory.receipts()
    assert [line["position"] for line in kept] == [0, 1, 2]
    assert kept[0]["request"] == "case 1"
    store = opener()
    store.drop("m")
    (archive,) = store.dropped("m")
    assert archive.log.to_bytes() == log.to_bytes()
    assert [line["kind"] for line in archive.receipts][-1] == "dropped"


def test_a_certificate_that_cannot_be_issued_stops_the_deletion(
    opener: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(30)))

    def refuse(*_: object) -> None:
        raise EvidenceError("the state after is not the optimum", "optimality")

    with monkeypatch.context() as patch:
        patch.setattr("svmemory.certificate.deletion.issue", refuse)
        with pytest.raises(EvidenceError):
            memory.forget(ids="row-0001", certificate=SIGNER)
    for held in (memory, opener().open("m")):
        assert held.digest() == never_saw(range(30))
        assert len(held.log()) == 0
        assert not held.receipts()
    memory.add(**people(range(30, 31)))
    assert memory.digest() == never_saw(range(31))


def test_a_failure_after_issuing_leaves_no_certificate(
    opener: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(30)))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("svmemory.store.content.Content.delete", crash)
        with pytest.raises(KeyboardInterrupt):
            memory.forget(ids="row-0001", certificate=SIGNER)
    assert len(memory.log()) == 0
    assert memory.digest() == never_saw(range(30))


def test_nothing_held_is_not_certified(opener: Callable[[], Store]) -> None:
    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(9)))
    receipt = memory.forget(subject="nobody", certificate=SIGNER)
    assert (receipt.kind, receipt.certificate) == ("nothing held", None)
    assert len(memory.log()) == 0


def test_what_a_store_cannot_certify(opener: Callable[[], Store], tmp_path: Path) -> None:
    store = opener()
    memory = store.create("m", CONTRACT)
    memory.add(**people(range(9)))
    with pytest.raises(InputError, match="keeps the log of a memory itself"):
        memory.forget(ids="row-0001", certificate=replace(SIGNER, log=tmp_path / "log"))
    with pytest.raises(InputError, match="takes a Signer"):
        memory.forget(ids="row-0001", certificate=KEY)  # type: ignore[arg-type]
    loose = store.create("loose", Contract.from_cap(1.0, 0.2, ridge=0.0))
    loose.add(**people(range(9)))
    with pytest.raises(ContractError, match="ridge > 0"):
        loose.forget(ids="row-0001", certificate=SIGNER)
    assert len(loose) == len(memory) == 9


def test_the_sinks_say_what_the_transaction_has_not_reached(opener: Callable[[], Store]) -> None:
    from svmemory.certificate.envelope import open_envelope
    from svmemory.certificate.log import CERTIFICATE_TYPE

    memory = opener().create("m", CONTRACT)
    memory.add(**people(range(9)))
    receipt = memory.forget(ids="row-0001", certificate=SIGNER)
    assert receipt.certificate is not None
    opened = open_envelope(receipt.certificate, CERTIFICATE_TYPE, [KEY.public])
    sinks = {line["sink"]: line for line in opened.document["predicate"]["scope"]}
    assert sinks["store tables"]["state"] == "reached"
    assert sinks["store files"]["state"] == "not reached"
    assert "the receipt says whether that is done" in sinks["store files"]["note"]
