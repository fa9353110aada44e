"""What a certificate must say of the places where a row may be, and of its own limits.

Its reader looks for the same few places in every certificate. So each must be named, none twice,
and none may be said to be in a state that a deletion in a memory cannot bring about: it cannot
reach a backup, or the source of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from .statement import LIMITS, NOT_OURS, NOT_REACHED, PRUNE_LIMIT, REACHED

_ANY = (REACHED, NOT_REACHED, NOT_OURS)
_NEVER_REACHED = (NOT_REACHED, NOT_OURS)

REQUIRED = {
    "live state": (REACHED,),
    "memory files": _ANY,
    "log": _ANY,
    "backups": _NEVER_REACHED,
    "upstream": _NEVER_REACHED,
}
"""Sinks that every certificate names, and the states they can be in."""

IN_A_STORE = {
    "store tables": (REACHED,),
    "store files": _NEVER_REACHED,  # rewritten only after the certificate is committed
    "server": _NEVER_REACHED,
}
"""Sinks that only the certificates of a store name."""

_KNOWN = REQUIRED | IN_A_STORE


def sink_fault(name: str, state: str) -> str | None:
    """What is wrong with one sink, if anything is; sinks of other names may be in any state."""
    allowed = _KNOWN.get(name)
    if allowed is None:
        meant = " ".join(name.split()).casefold()
        if meant in _KNOWN:
            return f"names the sink {name!r}, which is written {meant!r}"
        allowed = _ANY
    if state not in allowed:
        return f"says {state!r} of the sink {name!r}, which can only be {' or '.join(allowed)}"
    return None


def scope_fault(sinks: Sequence[tuple[str, str]]) -> str | None:
    """What is wrong with a certificate's sinks, as (name, state), if anything is."""
    names = [name for name, _ in sinks]
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        return f"does not say whether the deletion reached: {', '.join(missing)}"
    if len(set(names)) < len(names):
        return "names a sink twice"
    faults = (sink_fault(name, state) for name, state in sinks)
    return next((fault for fault in faults if fault is not None), None)


def limits_of(pruned: bool) -> list[str]:
    """The limits that a certificate states: these words and no others."""
    return [*LIMITS, *([PRUNE_LIMIT] if pruned else [])]
