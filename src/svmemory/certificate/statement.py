"""What a certificate says: an in-toto statement with a predicate of its own.

The *subject* of the statement is the state after the deletion, named by its digest. The predicate
says how it came about and how one can check it. Nothing in it names a deleted row or holds content;
arrays travel as digests, counters as decimal text, reals as C99 hex.
"""

from __future__ import annotations

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

WEIGHTS = {
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
            "issuer": Text(200, plain=True),
            "key": Digest(),
            "time": Time(),
            "sequence": Count(),
            "previous": Optional(Digest()),
        }
    ),
    "validity": Object({"notBefore": Time(), "notAfter": Time()}),
    "request": Object(
        {
            "id": Text(200, plain=True),
            "received": Time(),
            "completed": Time(),
            "ground": Text(500, plain=True),
            "authoriser": Text(200, plain=True),
        }
    ),
    "removed": ListOf(
        Object(
            {
                "id": Digest(),
                "subject": Optional(Digest()),
                "set": Choice(tuple(WEIGHTS)),
                "weight": Choice([one for among in WEIGHTS.values() for one in among]),
            }
        )
    ),
    "scope": ListOf(
        Object(
            {
                "sink": Text(100, plain=True),
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
        Object(
            {
                "by": Text(200, plain=True),
                "role": Text(200, plain=True),
                "time": Time(),
                "note": Text(500),
            }
        )
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
