"""Whether a signer may append to a log: it is in order, and it is the signer's own.

A log belongs to one key. Its readers trust that key, and one entry of another key, or one that does
not follow, makes the whole log fail for them. So both are refused before a row is deleted.
"""

from __future__ import annotations

from ..errors import EvidenceError
from .envelope import parse
from .keys import PublicKey
from .log import Log
from .logcheck import verify_log

WAY_OUT = (
    "put a good copy of it back, or give another log (a file that does not exist yet begins a new"
    " log)"
)


def require_own(log: Log, owner: PublicKey) -> None:
    """Raise EvidenceError for a log that ``owner`` must not append to.

    Raises
    ------
    EvidenceError
        Layer "key": another key signed an entry or a checkpoint of it. Otherwise that of the check
        of the log that fails. Names the entry or the key, and the way out.
    """
    for kind, envelopes in (("entry", log.entries), ("checkpoint", log.checkpoints)):
        for i, envelope in enumerate(envelopes):
            signer = parse(envelope).keyid
            if signer != owner.fingerprint:
                raise EvidenceError(
                    f"this log belongs to another key: its {kind} {i} is signed by"
                    f" {signer[:80]!r}, and you sign with {owner.fingerprint}; sign with the key of"
                    " the log, or give another log (a file that does not exist yet begins a new"
                    " log)",
                    "key",
                )
    for check in verify_log(log, trusted=[owner]):
        if check.verdict == "fail":
            raise EvidenceError(
                f"this log is broken and nothing is appended to it: {check.reason}; {WAY_OUT}",
                check.layer,
            )
