"""From two states and a request to a signed certificate and its opening."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import numpy as np

from ..contract import Contract
from ..errors import ContractError, EvidenceError
from .agreement import check_statement
from .commitments import (
    DIGEST_BEFORE,
    ROOT_BEFORE,
    ROW,
    SUBJECT,
    Opening,
    commitment,
    new_salt,
)
from .envelope import seal
from .fields import time_text
from .log import CERTIFICATE_TYPE, Link
from .optimality import optimality_document
from .scope import limits_of
from .self_check import check_before_signing, measure
from .signer import Acceptance, Request, Signer, moment, new_id
from .state import StateRecord, contract_document, json_digest, share_leaves
from .statement import (
    FORGET_TYPE,
    PRUNE_TYPE,
    SCHEMA,
    STATEMENT_TYPE,
    SUBJECT_NAME,
)


@dataclass(frozen=True)
class Operation:
    """What was done, and the work it took.

    Attributes
    ----------
    kind : {"forget", "prune"}
    events, zero_steps, corrections, refits : int
        As in :class:`svmemory.results.ForgetResult`.
    least_slack : float or None
        Of a prune.
    """

    kind: Literal["forget", "prune"]
    events: int = 0
    zero_steps: int = 0
    corrections: int = 0
    refits: int = 0
    least_slack: float | None = None


@dataclass(frozen=True)
class Issued:
    """A certificate's envelope, and the opening that names what it deleted."""

    certificate: bytes
    opening: bytes


def issue(
    before: StateRecord,
    after: StateRecord,
    removed: Sequence[str],
    operation: Operation,
    signer: Signer,
    link: Link,
) -> Issued:
    """Certificate of a deletion that has been done.

    Parameters
    ----------
    before, after : StateRecord
        Both in canonical form.
    removed : sequence of str
        Ids of the rows of ``before`` that ``after`` lacks, at least one.
    operation : Operation
    signer : Signer
    link : Link
        Its place in the chain.

    Raises
    ------
    ContractError
        At ridge 0, where the weights need not be unique.
    EvidenceError
        If the states do not fit, the state after is not the optimum (layer "optimality"), or a
        text is unusable ("encoding"). Nothing is signed.
    """
    require_unique(after.contract)
    now = signer.clock()
    rows = _removed_rows(before, removed)
    share_leaves(before, after)
    salt = new_salt()
    optimality = None if after.rows is None else measure(after.rows, after.contract)
    equality, checks = check_before_signing(after, optimality, signer)
    identity = new_id()
    predicate: dict[str, Any] = {
        "schema": SCHEMA,
        "identity": {
            "id": identity,
            "issuer": signer.issuer,
            "key": signer.key.public.fingerprint,
            "time": time_text(now),
            "sequence": str(link.sequence),
            "previous": link.previous,
        },
        "validity": {
            "notBefore": time_text(now),
            "notAfter": time_text(now + timedelta(days=signer.valid_days)),
        },
        "request": _request(signer.request, now),
        "removed": _committed(rows, salt),
        "scope": [
            {"sink": sink.sink, "state": sink.state, "note": sink.note}
            for sink in signer.all_sinks()
        ],
        "contract": contract_document(after.contract, after.header),
        "state": {
            "before": before.sizes()
            | {
                "digest": commitment(salt, DIGEST_BEFORE, before.digest),
                "root": commitment(salt, ROOT_BEFORE, before.root),
            },
            "after": after.sizes()
            | {
                "digest": after.digest,
                "root": after.root,
                "header": json_digest(after.header),
                "status": after.status,
            },
        },
        "operation": _operation(operation, rows, after),
        "optimality": None if optimality is None else optimality_document(optimality),
        "equality": equality,
        "tool": _tool(),
        "verification": [check.as_dict() for check in checks],
        "validation": _validation(signer.validation),
        "limits": limits_of(pruned=operation.kind == "prune"),
    }
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": SUBJECT_NAME, "digest": {"sha256": after.digest.removeprefix("sha256:")}}
        ],
        "predicateType": FORGET_TYPE if operation.kind == "forget" else PRUNE_TYPE,
        "predicate": predicate,
    }
    check_statement(statement)
    opened = [(name, subject) for name, subject, _ in rows]
    opening = Opening(identity, salt, opened, before.digest, before.root)
    return Issued(seal(CERTIFICATE_TYPE, statement, signer.key), opening.to_bytes())


def require_unique(contract: Contract) -> None:
    """Raise ContractError at ridge 0."""
    if contract.ridge == 0.0:
        raise ContractError(
            "a certificate needs a ridge > 0: at 0 the weights need not be unique, and nothing"
            " could be compared"
        )


# -- parts ---------------------------------------------------------------------------------------


def _removed_rows(
    before: StateRecord, removed: Sequence[str]
) -> list[tuple[str, str | None, float]]:
    """Id, subject and mass of the removed rows."""
    rows = before.rows
    place = {} if rows is None else {name: i for i, name in enumerate(rows.ids)}
    if rows is None or not removed or any(name not in place for name in removed):
        raise EvidenceError("the removed rows are not rows of the state before", "digest")
    return [(name, rows.subjects[i], float(rows.b[i])) for name in removed for i in [place[name]]]


def _committed(
    rows: Sequence[tuple[str, str | None, float]], salt: bytes
) -> list[dict[str, str | None]]:
    """Removed rows in the order of their commitments, which says nothing about them."""
    entries: list[dict[str, str | None]] = []
    for name, subject, mass in rows:
        half = "below half of the cap" if mass < 0.5 else "half of the cap or more"
        entries.append(
            {
                "id": commitment(salt, ROW, name),
                "subject": None if subject is None else commitment(salt, SUBJECT, subject),
                "set": "reserve" if mass == 0.0 else "error" if mass == 1.0 else "margin",
                "weight": "zero" if mass == 0.0 else "cap" if mass == 1.0 else half,
            }
        )
    return sorted(entries, key=lambda entry: entry["id"] or "")


def _request(request: Request, now: Any) -> dict[str, str]:
    return {
        "id": request.id or new_id(),
        "received": moment(request.received, now),
        "completed": time_text(now),
        "ground": request.ground,
        "authoriser": request.authoriser,
    }


def _operation(
    operation: Operation, rows: Sequence[tuple[str, str | None, float]], after: StateRecord
) -> dict[str, str | None]:
    if after.rows is None:
        path = "emptied"
    elif all(mass == 0.0 for _, _, mass in rows) and not operation.events:
        path = "no weight moved"
    else:
        path = "rebuilt" if operation.refits or not operation.events else "path"
    slack = operation.least_slack
    return {
        "path": path,
        "events": str(operation.events),
        "zeroSteps": str(operation.zero_steps),
        "corrections": str(operation.corrections),
        "refits": str(operation.refits),
        "leastSlack": None if slack is None or not np.isfinite(slack) else float(slack).hex(),
    }


def _validation(accepted: Acceptance | None) -> dict[str, str] | None:
    if accepted is None:
        return None
    return {
        "by": accepted.by,
        "role": accepted.role,
        "time": time_text(accepted.time),
        "note": accepted.note,
    }


@cache
def _tool() -> dict[str, str]:
    try:
        ours = version("svmemory")
    except PackageNotFoundError:  # run from a source tree
        ours = "unknown"
    return {
        "name": "svmemory",
        "version": ours,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}".strip() or "unknown",
    }
