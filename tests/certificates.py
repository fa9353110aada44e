"""Certificates to test: small memories, signers whose clock stands still, parts of envelopes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from svmemory import EvidenceError, SupportVectorMemory
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.signer import Signer
from svmemory.certificate.verify import Evidence, Verification, verify

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def memory_of(n: int = 60, d: int = 3, nu: float = 0.3, seed: int = 0) -> SupportVectorMemory:
    """Rows of three to a subject, with values and a scaler in the header."""
    keys = np.random.default_rng([n, seed]).standard_normal((n, d))
    memory = SupportVectorMemory.from_nu(nu, n, gamma=0.5)
    memory.add(
        keys,
        keys[:, :2] * 2.0,
        ids=[f"row-{i:04d}" for i in range(n)],
        subjects=[f"person-{i // 3}" for i in range(n)],
    )
    memory.header = {"key_columns": [f"k{j}" for j in range(d)], "scaler": {"kind": "none"}}
    return memory


def signer_of(key: SecretKey | None = None, **options: Any) -> Signer:
    """A signer whose clock stands at NOW."""
    defaults: dict[str, Any] = {"issuer": "Clinic", "clock": lambda: NOW}
    return Signer(key or SecretKey.generate(), **(defaults | options))


def file_of(memory: SupportVectorMemory, folder: Any) -> bytes:
    """The bytes of its memory file."""
    path = folder / "memory.svm"
    memory.save(path)
    return bytes(path.read_bytes())


def statement_of(certificate: bytes) -> Any:
    """What is in an envelope, unverified."""
    return json.loads(base64.b64decode(json.loads(certificate)["payload"]))


def check(evidence: Evidence, signer: Signer) -> Verification:
    """Verify at NOW, trusting the signer's key."""
    return verify(evidence, [signer.key.public], now=NOW)


def verdicts(found: Verification) -> dict[str, str]:
    """Verdict by name of check."""
    return {one.name: one.verdict for one in found.checks}


def failures(found: Verification) -> set[str]:
    """Layers of the checks that failed."""
    return {str(one.layer) for one in found.checks if one.verdict == "fail"}


def refusal(call: Callable[[], object]) -> EvidenceError | None:
    """The refusal of a call, None if it went through."""
    try:
        call()
    except EvidenceError as error:
        return error
    return None


def leaves(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all strings, numbers and nulls in a JSON document."""
    if isinstance(document, dict):
        return [p for key in document for p in leaves(document[key], (*path, key))]
    if isinstance(document, list):
        return [p for i, item in enumerate(document) for p in leaves(item, (*path, i))]
    return [path]


def changed(document: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """A copy of a JSON document with one value changed."""
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = change(place[path[-1]])
    return copy
