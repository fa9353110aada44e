"""Deletions from a stored memory: one way for all verbs, from the choice of rows to the receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import select

from ..errors import InputError
from ..inputs import Label, as_label, as_labels, listed
from ..preview import require
from ..results import ForgetResult, PruneResult
from . import evidence, records, schema, tombstones
from .change import Change, Changing
from .cleaning import count_erasure
from .results import Kind, Receipt
from .times import as_time

if TYPE_CHECKING:
    from ..certificate.signer import Signer


@dataclass(frozen=True)
class Chosen:
    """Ids to delete, and what was asked for and is not held."""

    names: list[str]
    missing: list[str]


Choice = Callable[[Change], Chosen]


@dataclass(frozen=True)
class Removal:
    """A deletion that was asked for.

    Attributes
    ----------
    verb, kind : str
        "forget" and "forgotten", and so on.
    choose : callable
        Finds the rows, inside the transaction.
    token, request, digests, certificate
        As in :meth:`svmemory.store.stored.StoredMemory.forget`.
    erase : bool
        Whether the ids get tombstones.
    slack : float or None
        Of a prune.
    """

    verb: str
    kind: Kind
    choose: Choice
    token: str | None
    request: str | None
    digests: bool
    certificate: Signer | None
    erase: bool
    slack: float | None = None

    @property
    def name(self) -> str | None:
        """The caller's name for the request."""
        if self.request is not None or self.certificate is None:
            return self.request
        return self.certificate.request.id


class Removing(Changing):
    """The deleting side of a memory in a store."""

    def _remove(self, wanted: Removal) -> Receipt:
        if wanted.request is not None:
            as_label(wanted.request, "request", 0)
        with self.changing() as change:
            chosen = wanted.choose(change)
            require(wanted.token, wanted.verb, change.memory, chosen.names)
            if chosen.names:
                receipt = self._deleted(change, wanted, chosen)
            else:
                receipt = self._nothing(change, wanted, chosen)
            self._keep(change, receipt)
        return self._store.cleaned(receipt, self._record.memory) if receipt.success else receipt

    def _deleted(self, change: Change, wanted: Removal, chosen: Chosen) -> Receipt:
        """Delete the chosen rows inside the transaction."""
        connection, memory = change.connection, change.memory
        former = memory._sets_of(chosen.names)
        before = memory.digest() if wanted.digests else None
        result, position = self._taken(change, wanted, chosen.names)
        change.content.delete(connection, change.record, chosen.names)
        if wanted.erase:
            now = as_time(datetime.now(UTC), "time")
            change.record = tombstones.put(connection, change.record, chosen.names, now)
        count_erasure(connection)
        change.advance()
        receipt = self._receipt(change, wanted.kind, _sentence(wanted, chosen, len(memory)))
        return replace(
            receipt,
            removed=chosen.names,
            former=former,
            missing=chosen.missing,
            request=wanted.name,
            digest_before=before,
            digest_after=memory.digest() if wanted.digests else None,
            certificate=result.certificate,
            opening=result.opening,
            position=position,
        )

    def _taken(
        self, change: Change, wanted: Removal, names: list[str]
    ) -> tuple[ForgetResult | PruneResult, int | None]:
        """Take rows out of the memory in RAM, with a certificate if there is a signer."""
        memory, signer = change.memory, wanted.certificate
        log = None
        if signer is not None:
            signer, log = evidence.bound(change, signer)
            known = len(evidence.lines_of(log))

        def delete() -> ForgetResult | PruneResult:
            if wanted.slack is not None:
                return memory.prune(wanted.slack, certificate=signer)
            return memory.forget(ids=names, certificate=signer)

        result = change.mutate(delete)
        if log is None:
            return result, None
        evidence.keep(change, log, known)
        return result, len(log) - 1

    def _nothing(self, change: Change, wanted: Removal, chosen: Chosen) -> Receipt:
        digest = change.memory.digest() if wanted.digests else None
        receipt = self._receipt(change, "nothing held", _sentence(wanted, chosen, len(self)))
        return replace(
            receipt,
            missing=chosen.missing,
            request=wanted.name,
            digest_before=digest,
            digest_after=digest,
        )

    def _receipt(self, change: Change, kind: Kind, message: str) -> Receipt:
        number = records.next_receipt(change.connection, change.record.memory)
        rows = len(change.memory)
        return Receipt(kind, self.name, number, records.now(), message, rows_left=rows)

    def _keep(self, change: Change, receipt: Receipt) -> None:
        records.keep_receipt(change.connection, change.record.memory, receipt)


def as_chosen(
    ids: Iterable[Label] | Label | None, subject: Iterable[Label] | Label | None
) -> Choice:
    """Rows by id, or all rows of some subjects."""
    if (ids is None) == (subject is None):
        raise InputError("give either ids or subject")
    if subject is not None:
        owners = _labels(subject, "subject")

        def by_subject(change: Change) -> Chosen:
            names: list[str] = []
            missing: list[str] = []
            for owner in owners:
                rows, _ = change.memory._held.table.select(None, owner, strict=False)
                names += rows
                missing += [] if rows else [owner]
            return Chosen(names, missing)

        return by_subject
    wanted = _labels(ids, "id")

    def by_id(change: Change) -> Chosen:
        held = [name for name in wanted if name in change.memory]
        gone = set(held)
        return Chosen(held, [name for name in wanted if name not in gone])

    return by_id


def _labels(given: Any, what: str) -> list[str]:
    """One label or several, each once."""
    single = isinstance(given, str | int | np.integer)
    several = [given] if single else listed(given, what)
    labels = list(dict.fromkeys(as_labels(several, what, len(several))))
    if not labels:
        raise InputError(f"no {what}s were given")
    return labels


def older_than(limit: int) -> Choice:
    """Rows whose time is before ``limit``."""

    def choose(change: Change) -> Chosen:
        table = schema.rows
        query = (
            select(table.c.row)
            .where(table.c.memory == change.record.memory, table.c.time < limit)
            .order_by(table.c.row)
        )
        found = change.connection.scalars(query).all()
        return Chosen(change.content.named(found) if found else [], [])

    return choose


def _sentence(wanted: Removal, chosen: Chosen, left: int) -> str:
    """What happened, for people."""
    absent = ""
    if chosen.missing:
        more = f" and {len(chosen.missing) - 1} more" if len(chosen.missing) > 1 else ""
        absent = f"no row held for {chosen.missing[0]!r}{more}"
    if not chosen.names:
        return absent or _NOTHING[wanted.verb]
    rows = f"{len(chosen.names)} row{'s' if len(chosen.names) > 1 else ''} {wanted.kind}"
    notes = [f"{rows}, {left} left"]
    if wanted.verb == "evict":
        notes.append("by a heuristic, without a certificate: readouts may have changed")
    return "; ".join([*notes, *[absent] * bool(absent)])


_NOTHING = {
    "forget": "no row was named",
    "expire": "no row is old enough to expire",
    "evict": "the memory is within the budget, so no row was evicted",
    "prune": "there is no reserve row to prune",
}
