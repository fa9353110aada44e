"""What a certificate says: an in-toto statement with a predicate of its own.

The *subject* of the statement is the state after the deletion, named by its digest. The predicate
says how it came about and how one can check it. Nothing in it names a deleted row or holds content;
arrays travel as digests, counters as decimal text, reals as C99 hex.
"""

from __future__ import annotations

from typing import Any

from ..errors import EvidenceError
from .fields import (
    Choice,
    Count,
    Digest,
    Field,
    Flag,
    ListOf,
    Object,
    Optional,
    Real,
    Text,
    Time,
    check_fields,
    parse_time,
    refuse,
)

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
FORGET_TYPE = "https://svmemory.org/forget/v1"
PRUNE_TYPE = "https://svmemory.org/prune/v1"
SUBJECT_NAME = "svmemory state"
SCHEMA = "1"

REACHED, NOT_REACHED, NOT_OURS = "reached", "not reached", "not ours"

LIMITS = (
    "It speaks of one memory at one time: a row that is added again is held again.",
    "Backups, snapshots and copies of older files or states are not reached; whoever holds the"
    " states before and after can compare them and see what was removed.",
    "Models, statistics, scalings and parameters that were computed from a deleted row elsewhere,"
    " or before it was deleted, are not undone.",
    "It shows what the state is, not what a program did with a row while it was held; process"
    " memory and disk blocks may keep traces until they are used again.",
    "The issuer chooses what to sign: whoever holds the retained rows can compute the digests"
    " again, but that the deleted rows are the right ones rests on the issuer's word and opening.",
    "It is a technical record and makes no legal claim.",
)

PRUNE_LIMIT = (
    "Pruned rows had no weight at this time; rows that are added or forgotten later might have"
    " given them weight again."
)

_WEIGHTS = {
    "reserve": ("zero",),
    "margin": ("below half of the cap", "half of the cap or more"),
    "error": ("cap",),
}
_SETS = {name: Count() for name in ("rows", "margin", "error", "reserve")}
_CHECK: dict[str, Field] = {
    "name": Text(100),
    "layer": Text(40),
    "verdict": Choice(("pass", "warn", "fail", "not run")),
    "reason": Text(1000),
}

PREDICATE: dict[str, Field] = {
    "schema": Choice((SCHEMA,)),
    "identity": Object(
        {
            "id": Text(80),
            "issuer": Text(200),
            "key": Digest(),
            "time": Time(),
            "sequence": Count(),
            "previous": Optional(Digest()),
        }
    ),
    "validity": Object({"notBefore": Time(), "notAfter": Time()}),
    "request": Object(
        {
            "id": Text(200),
            "received": Time(),
            "completed": Time(),
            "ground": Text(500),
            "authoriser": Text(200),
        }
    ),
    "removed": ListOf(
        Object(
            {
                "id": Digest(),
                "subject": Optional(Digest()),
                "set": Choice(tuple(_WEIGHTS)),
                "weight": Choice([one for among in _WEIGHTS.values() for one in among]),
            }
        )
    ),
    "scope": ListOf(
        Object(
            {
                "sink": Text(100),
                "state": Choice((REACHED, NOT_REACHED, NOT_OURS)),
                "note": Text(500),
            }
        )
    ),
    "contract": Object(
        {
            "gamma": Real(),
            "C": Real(),
            "mass": Real(),
            "ridge": Real(),
            "kernel": Text(40),
            "scaler": Optional(Digest()),
        }
    ),
    "state": Object(
        {
            "before": Object({**_SETS, "digest": Digest(), "root": Digest()}),
            "after": Object(
                {
                    **_SETS,
                    "digest": Digest(),
                    "root": Digest(),
                    "header": Digest(),
                    "status": Choice(("empty", "warmup", "optimal")),
                }
            ),
        }
    ),
    "operation": Object(
        {
            "path": Choice(("no weight moved", "path", "rebuilt", "emptied")),
            "events": Count(),
            "zeroSteps": Count(),
            "corrections": Count(),
            "refits": Count(),
            "leastSlack": Optional(Real()),
        }
    ),
    "optimality": Optional(
        Object(
            {
                "residual": Real(),
                "gap": Real(),
                "scoreBound": Real(),
                "complementarity": Object({"slack": Optional(Real()), "mass": Optional(Real())}),
                "offset": Real(),
                "offsetInterval": Object({"low": Real(), "high": Real()}),
            }
        )
    ),
    "equality": Object(
        {
            "check": Choice(("now", "later")),
            "digest": Optional(Digest()),
            "weightDeviation": Optional(Real()),
            "scoreDeviation": Optional(Real()),
            "bitExact": Optional(Flag()),
            "note": Text(500),
        }
    ),
    "tool": Object(
        {name: Text(200) for name in ("name", "version", "python", "numpy", "platform")}
    ),
    "verification": ListOf(Object(_CHECK)),
    "validation": Optional(
        Object({"by": Text(200), "role": Text(200), "time": Time(), "note": Text(500)})
    ),
    "limits": ListOf(Text(1000)),
}

STATEMENT: dict[str, Field] = {
    "_type": Choice((STATEMENT_TYPE,)),
    "subject": ListOf(
        Object(
            {
                "name": Choice((SUBJECT_NAME,)),
                "digest": Object({"sha256": Text(64, "[0-9a-f]{64}")}),
            }
        )
    ),
    "predicateType": Choice((FORGET_TYPE, PRUNE_TYPE)),
    "predicate": Object(PREDICATE),
}


def check_statement(document: Any) -> None:
    """Check every field of a statement, and that its parts agree with each other.

    Raises
    ------
    EvidenceError
        Names the field; layer "encoding" (a field) or "digest" (parts that disagree).
    """
    check_fields(document, STATEMENT, "statement")
    if len(document["subject"]) != 1:
        refuse("statement.subject", "must name exactly one state")
    predicate = document["predicate"]
    disagreement = _disagreement(document["subject"][0]["digest"]["sha256"], predicate)
    pruned = document["predicateType"] == PRUNE_TYPE
    if pruned and any(row["set"] != "reserve" for row in predicate["removed"]):
        disagreement = "only reserve rows can be pruned"
    if disagreement is not None:
        raise EvidenceError(f"the certificate contradicts itself: {disagreement}", "digest")
    if predicate["equality"]["check"] == "later" and predicate["equality"]["bitExact"] is not None:
        refuse("predicate.equality.bitExact", "must be null where the check was left for later")


def _disagreement(subject: str, predicate: dict[str, Any]) -> str | None:
    before, after = predicate["state"]["before"], predicate["state"]["after"]
    if after["digest"] != f"sha256:{subject}":
        return "its subject is not the digest of the state after"
    for name, state in (("before", before), ("after", after)):
        sets = sum(int(state[one]) for one in ("margin", "error", "reserve"))
        if sets != int(state["rows"]):
            return f"the sets of the state {name} do not add up to its rows"
    removed = predicate["removed"]
    if not removed:
        return "it removes no row"
    if int(before["rows"]) - int(after["rows"]) != len(removed):
        return "rows before minus rows after is not the number of rows removed"
    if len({row["id"] for row in removed}) != len(removed):
        return "a row is removed twice"
    for row in removed:
        if row["weight"] not in _WEIGHTS[row["set"]]:
            return f"a row of the {row['set']} set has the weight {row['weight']!r}"
    for name in _WEIGHTS:
        if sum(row["set"] == name for row in removed) > int(before[name]):
            return f"more {name} rows are removed than there were"
    if (after["status"] == "empty") != (after["rows"] == "0"):
        return "its status does not fit the number of rows after"
    if (predicate["optimality"] is None) != (after["rows"] == "0"):
        return "figures of optimality belong to a state with rows"
    if (predicate["identity"]["sequence"] == "0") != (predicate["identity"]["previous"] is None):
        return "exactly the first certificate of a chain has no certificate before it"
    request, identity = predicate["request"], predicate["identity"]
    validity = predicate["validity"]
    moments = [request["received"], request["completed"], identity["time"]]
    times = [parse_time(moment) for moment in moments]
    if times != sorted(times):
        return "the request was not received, completed and certified in this order"
    if parse_time(validity["notBefore"]) > parse_time(validity["notAfter"]):
        return "its validity ends before it begins"
    return None
