"""What there is to say about a memory, as JSON values and as lines for people."""

from __future__ import annotations

from typing import Any

from ..memory import SupportVectorMemory
from .files import OpenedMemory

SETS = ("margin", "error", "reserve")


def digest_of(memory: SupportVectorMemory) -> str | None:
    """The digest, None at ridge 0, where the optimum and so the digest may not be unique."""
    return memory.digest() if memory.contract.ridge > 0 else None


def summary(opened: OpenedMemory) -> dict[str, Any]:
    """Contract, sizes, sets, digest, KKT residual and scaling of a memory, as JSON values."""
    memory, header = opened.memory, opened.header
    contract, rows = memory.contract, len(memory)
    digest = digest_of(memory)  # first: it brings the state to canonical form
    sets = {name: len(getattr(memory.partition, name)) for name in SETS}
    return {
        "memory": str(opened.path),
        "rows": rows,
        "subjects": len({subject for subject in memory.subjects if subject is not None}),
        "dimension": memory.dimension,
        "value_dimension": memory.value_dimension,
        "status": memory.status,
        "sets": sets,
        "support_share": (sets["margin"] + sets["error"]) / rows if rows else None,
        "contract": {
            "gamma": contract.gamma,
            "C": contract.C,
            "mass": contract.mass,
            "ridge": contract.ridge,
        },
        "digest": digest,
        "kkt_residual": memory.kkt().residual if rows else None,
        "key_columns": opened.columns("key"),
        "value_columns": opened.columns("value"),
        "id_column": header.get("id_column"),
        "subject_column": header.get("subject_column"),
        "gamma_from": header.get("gamma_from"),
        "scaler": header.get("scaler"),
    }


def facts(document: dict[str, Any]) -> dict[str, object]:
    """The same as lines to print."""
    contract, sets, scaler = document["contract"], document["sets"], document["scaler"]
    share, residual = document["support_share"], document["kkt_residual"]
    return {
        "memory": document["memory"],
        "rows": f"{document['rows']}, {document['subjects']} subjects, {document['status']}",
        "sets": ", ".join(f"{name} {sets[name]}" for name in SETS)
        + ("" if share is None else f"; support {share:.1%} of the rows"),
        "keys": _columns(document["key_columns"]),
        "values": _columns(document["value_columns"]),
        "contract": f"gamma {contract['gamma']:.10g}, C {contract['C']:.10g}"
        f" (1/C = {contract['mass']:.10g} rows), ridge {contract['ridge']:.10g}",
        "scaling": "none" if scaler is None else scaler["kind"],
        "KKT residual": "none (no rows)" if residual is None else f"{residual:.3g}",
        "digest": digest_line(document["digest"]),
    }


def digest_line(digest: str | None) -> str:
    """A digest, or why there is none."""
    return digest or "none (at ridge 0 the weights need not be unique)"


def count(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _columns(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "none"
