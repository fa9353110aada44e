"""Whether a statement has its form, and its parts agree with each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..errors import EvidenceError
from .fields import check_fields, parse_time, refuse
from .scope import limits_of, scope_fault
from .statement import PRUNE_TYPE, STATEMENT, WEIGHTS

SKEW = timedelta(minutes=5)
"""How far two clocks may differ."""


def check_statement(document: Any) -> None:
    """Check every field of a statement, and that its parts agree with each other.

    Raises
    ------
    EvidenceError
        Names the field; layer "encoding" (a field), "digest" (parts that disagree) or "time"
        (times that disagree).
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
    disorder = _disorder(predicate)
    if disorder is not None:
        raise EvidenceError(f"the certificate contradicts itself: {disorder}", "time")
    if predicate["equality"]["check"] == "later" and predicate["equality"]["bitExact"] is not None:
        refuse(
            "statement.predicate.equality.bitExact",
            "must be null where the check was left for later",
        )
    fault = scope_fault([(sink["sink"], sink["state"]) for sink in predicate["scope"]])
    if fault is not None:
        refuse("statement.predicate.scope", fault)
    if predicate["limits"] != limits_of(pruned):
        refuse("statement.predicate.limits", "are not the limits of every such certificate")


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
        if row["weight"] not in WEIGHTS[row["set"]]:
            return f"a row of the {row['set']} set has the weight {row['weight']!r}"
    for name in WEIGHTS:
        if sum(row["set"] == name for row in removed) > int(before[name]):
            return f"more {name} rows are removed than there were"
    if (after["status"] == "empty") != (after["rows"] == "0"):
        return "its status does not fit the number of rows after"
    if (predicate["optimality"] is None) != (after["rows"] == "0"):
        return "figures of optimality belong to a state with rows"
    if (predicate["identity"]["sequence"] == "0") != (predicate["identity"]["previous"] is None):
        return "exactly the first certificate of a chain has no certificate before it"
    return None


def _disorder(predicate: dict[str, Any]) -> str | None:
    """How its times disagree, if they do."""
    request, validity = predicate["request"], predicate["validity"]
    received, completed = parse_time(request["received"]), parse_time(request["completed"])
    certified = parse_time(predicate["identity"]["time"])
    begins, ends = parse_time(validity["notBefore"]), parse_time(validity["notAfter"])
    if not received <= completed <= certified:
        return "the request was not received, completed and certified in this order"
    if begins > ends:
        return "its validity ends before it begins"
    if not begins <= certified <= ends:
        return "it was certified outside its own validity"
    accepted = predicate["validation"]
    if accepted is not None and parse_time(accepted["time"]) - certified > SKEW:
        return "it says that it was accepted after it was signed"
    return None
