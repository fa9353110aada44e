"""What a check says, and what a list of checks says together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Layer = Literal["encoding", "signature", "key", "chain", "digest", "optimality", "time"]
Verdict = Literal["pass", "warn", "fail", "not run"]
Conclusion = Literal["verified", "pending", "unverified"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What was looked at.
    layer : str
        Where it belongs: "encoding", "signature", "key", "chain", "digest", "optimality", "time".
    verdict : str
        "pass", "warn" (passed, but read the reason), "fail" or "not run".
    reason : str
        What was found, or why it was not run.
    matters : bool
        Whether the whole stays pending while this check is not run.
    """

    name: str
    layer: Layer
    verdict: Verdict
    reason: str
    matters: bool = True

    def as_dict(self) -> dict[str, str]:
        """Name, layer, verdict and reason."""
        fields = asdict(self)
        del fields["matters"]
        return fields


def conclusion(checks: Iterable[Check]) -> Conclusion:
    """All checks together: "unverified" if one fails, "pending" if one that matters is not run.

    No checks at all are "pending": nothing was shown.
    """
    listed = list(checks)
    if any(check.verdict == "fail" for check in listed):
        return "unverified"
    if not listed or any(check.verdict == "not run" and check.matters for check in listed):
        return "pending"
    return "verified"
