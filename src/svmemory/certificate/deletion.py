"""Deletions with a certificate: the rows go and the certificate is written, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from ..errors import InputError, SVMemoryError
from ..holding import Holding, Progress
from ..inputs import Label
from ..results import ForgetResult, PruneResult
from .issue import Issued, Operation, issue, require_unique
from .signer import Signer
from .state import StateRecord

if TYPE_CHECKING:
    from ..memory import SupportVectorMemory

Result = TypeVar("Result", ForgetResult, PruneResult)


def state_of(memory: SupportVectorMemory) -> StateRecord:
    """The memory's state as evidence; puts it in canonical form."""
    memory.canonicalise()
    rows = memory._held.in_id_order() if len(memory) else None
    return StateRecord(memory.contract, rows, memory.header)


def forget(
    memory: SupportVectorMemory,
    signer: Signer,
    ids: Iterable[Label] | Label | None,
    subject: Label | None,
    missing: Literal["error", "ignore"],
    digests: bool,
    progress: Progress | None,
) -> ForgetResult:
    """``memory.forget`` with a certificate."""
    return certified(
        memory,
        signer,
        lambda: memory.forget(ids, subject, missing, digests, progress),
        lambda done: Operation(
            "forget", done.events, done.zero_steps, done.corrections, done.refits
        ),
    )


def prune(
    memory: SupportVectorMemory, signer: Signer, keep_slack_below: float, digests: bool
) -> PruneResult:
    """``memory.prune`` with a certificate."""
    return certified(
        memory,
        signer,
        lambda: memory.prune(keep_slack_below, digests),
        lambda done: Operation("prune", least_slack=done.slack),
    )


def certified(
    memory: SupportVectorMemory,
    signer: Signer,
    delete: Callable[[], Result],
    describe: Callable[[Result], Operation],
) -> Result:
    """Delete by ``delete`` and add a certificate to its result.

    If no certificate can be issued or the signer's log cannot be written, the memory has its rows
    back, in their order. Where nothing was deleted there is nothing to certify.
    """
    if not isinstance(signer, Signer):
        raise InputError(
            f"certificate takes a Signer (svmemory.certificate.signer), got {type(signer).__name__}"
        )
    require_unique(memory.contract)
    undo = None
    try:
        with signer.hold() as place:  # first: a log that cannot be used stops the deletion
            kept = _Undo(memory)
            result = delete()
            if not result.removed:
                return result
            undo = kept
            after = state_of(memory)
            issued = issue(kept.state, after, result.removed, describe(result), signer, place.link)
            memory._digest = after.digest.removeprefix("sha256:")
            place.take(issued.certificate)
    except BaseException:  # a log in a file is written at the end of the block above
        if undo is not None:
            undo.restore()
        raise
    _wipe(kept.state)
    return _with(result, issued)


def _with(result: Result, issued: Issued) -> Result:
    return replace(result, certificate=issued.certificate, opening=issued.opening)


class _Undo:
    """What it takes to have a memory's rows back after a deletion."""

    def __init__(self, memory: SupportVectorMemory) -> None:
        self.memory = memory
        self.state = state_of(memory)
        self.order = memory.ids
        self.certificate = memory._certificate.copy()
        self.digest = memory._digest

    def restore(self) -> None:
        """Give the memory its rows back: those of the state before, in their old order."""
        memory, rows = self.memory, self.state.rows
        if rows is None:
            return
        place = {name: i for i, name in enumerate(rows.ids)}
        order = [place[name] for name in self.order]
        held = Holding(memory.contract, memory._held.cold)
        try:
            held.insert(
                [rows.ids[i] for i in order],
                [rows.subjects[i] for i in order],
                rows.keys[order],
                rows.values[order],
                None,
            )
        except SVMemoryError as error:
            raise type(error)(
                f"the rows are deleted and no certificate could be issued; putting them back"
                f" failed as well: {error}"
            ) from error
        memory._held, memory._digest = held, self.digest
        memory._certificate = self.certificate


def _wipe(state: StateRecord) -> None:
    """Overwrite the keys and values of a state that is not needed any more."""
    if state.rows is not None:
        state.rows.keys.fill(0.0)
        state.rows.values.fill(0.0)
