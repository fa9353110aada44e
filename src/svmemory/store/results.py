"""What a store's verbs return: receipts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "forgotten",
    "nothing held",
    "expired",
    "evicted",
    "pruned",
    "shredded",
    "readmitted",
    "repaired",
    "dropped",
]


@dataclass(frozen=True)
class Receipt:
    """What a request came to. The store keeps it without ids.

    Attributes
    ----------
    kind : str
        "forgotten", "expired", "evicted", "pruned": rows were deleted, by that verb; "nothing
        held": none was; "shredded": keys of encrypted rows were destroyed; "readmitted": erased ids
        were let in again; "repaired": the weights were computed afresh; "dropped": the memory is
        gone.
    memory : str
        Name of the memory.
    number : int
        Receipts of a memory are numbered from 1.
    time : str
        When it was written, UTC.
    message : str
        The same in a sentence.
    removed : list of str
        Ids of deleted rows.
    former : dict of str to str
        Set that each of them was in.
    missing : list of str
        What the request named and the memory did not hold.
    rows_left : int
    request : str or None
        The caller's name for the request.
    digest_before, digest_after : str or None
        On request, and with a certificate.
    purged : str
        "done": no bytes of deleted rows are left in the store's files (what that means on a server
        is in docs/how-to/store.md); else why they may be there still.
    certificate, opening : bytes or None
        As :class:`svmemory.certificate.signer.Signer` makes them.
    position : int or None
        Place of the certificate in the memory's log.
    shredded : Receipt or None
        For encrypted rows, the receipt of their keys.
    """

    kind: Kind
    memory: str
    number: int
    time: str
    message: str
    removed: list[str] = field(default_factory=list)
    former: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    rows_left: int = 0
    request: str | None = None
    digest_before: str | None = None
    digest_after: str | None = None
    purged: str = "done"
    certificate: bytes | None = None
    opening: bytes | None = None
    position: int | None = None
    shredded: Receipt | None = None

    @property
    def success(self) -> bool:
        """Whether the request changed anything."""
        return self.kind != "nothing held"

    @property
    def pending(self) -> bool:
        """Whether bytes or keys of deleted rows may be there still."""
        return self.purged != "done" or (self.shredded is not None and self.shredded.pending)

    def kept(self) -> dict[str, Any]:
        """What the store keeps: counts and digests, no ids."""
        return {
            "kind": self.kind,
            "number": self.number,
            "time": self.time,
            "removed": len(self.removed),
            "missing": len(self.missing),
            "rows_left": self.rows_left,
            "request": self.request,
            "digest_before": self.digest_before,
            "digest_after": self.digest_after,
            "position": self.position,
        }
