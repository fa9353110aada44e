"""One patient deleted from a memory of many, with everything checked that can be."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import SupportVectorMemory
from ..audit.vitals import carried_forward
from ..certificate.signer import Signer
from ..certificate.verify import Evidence, verify
from ..contract import Contract
from ..decay import decayed_score
from ..scan import ScanRow, scan
from .stays import Stay

Floats = NDArray[np.float64]

CENTRE = np.array([80.0, 120.0, 65.0, 18.0, 97.0, 37.0])
SPREAD = np.array([20.0, 20.0, 15.0, 5.0, 3.0, 0.7])
"""Declared scale of the six vitals. Taken from no patient, so that no deletion has to undo it."""

NU = 0.3
GAMMA = 1.0 / 9.0
DECAY = 0.01


@dataclass(frozen=True, eq=False)
class Records:
    """Hours of many stays as rows.

    Attributes
    ----------
    keys : (n, 6) array
        Vitals of an hour on the declared scale.
    values : (n, 6) array
        Vitals of the next hour, in their units.
    ids, subjects : list of n str
        Hour and stay.
    """

    keys: Floats
    values: Floats
    ids: list[str]
    subjects: list[str]

    @property
    def contract(self) -> Contract:
        """Of nu = 0.3 of these rows and sigma = 3; fixed before anything is deleted."""
        return Contract.from_nu(NU, len(self.keys), GAMMA)

    def without(self, subject: str | None) -> list[int]:
        """Positions of the rows of everyone else."""
        return [i for i, one in enumerate(self.subjects) if one != subject]

    def memory(self, rows: Sequence[int]) -> SupportVectorMemory:
        """A memory that sees these rows, in this order."""
        built = SupportVectorMemory.from_contract(self.contract)
        built.add(
            self.keys[list(rows)],
            self.values[list(rows)],
            ids=[self.ids[i] for i in rows],
            subjects=[self.subjects[i] for i in rows],
        )
        return built

    def scan_rows(self, rows: Sequence[int]) -> list[ScanRow]:
        """The rows as the byte scan looks for them."""
        return [ScanRow(self.ids[i], self.keys[i], self.values[i], self.subjects[i]) for i in rows]


def records(stays: Sequence[Stay], hours: int) -> Records:
    """The first hours of each stay as rows: vitals now, and those of the hour after.

    Gaps carry the last value forward; before a first value the declared centre stands.
    """
    keys, values, ids, subjects = [], [], [], []
    for stay in stays:
        vitals = carried_forward(stay.vitals[: hours + 1])
        vitals = np.where(np.isnan(vitals), CENTRE, vitals)
        count = len(vitals) - 1
        keys.append((vitals[:-1] - CENTRE) / SPREAD)
        values.append(vitals[1:])
        subjects += [f"stay {stay.name}"] * count
        ids += [f"stay {stay.name}, hour {hour:03d}" for hour in range(count)]
    return Records(np.concatenate(keys), np.concatenate(values), ids, subjects)


@dataclass(frozen=True)
class Outcome:
    """What was found after one deletion.

    Attributes
    ----------
    rows, weighted : int
        Rows of the stay; those of them that had weight.
    residue : int
        Its rows and ids that are still held, and forms of them that the byte scan found in the
        file.
    seen : bool
        Whether the scan was able to see rows: it found live ones.
    same_readouts, same_scores, same_digest : bool
        Against a memory that never saw the stay, to the bit; at every row's key, the deleted too.
    certificate : str
        The verifier's conclusion: "verified", "pending" or "unverified".
    moved : float
        Largest change of another patient's readout by the deletion, in declared spreads.
    zeroed, decayed : float
        Largest error of a gate score where the stay's weights are set to 0, or to a hundredth, and
        nothing is solved again.
    forget_ms, rebuild_ms : float
        Time of the deletion with the canonical form; of building the memory that never saw it.
    """

    rows: int
    weighted: int
    residue: int
    seen: bool
    same_readouts: bool
    same_scores: bool
    same_digest: bool
    certificate: str
    moved: float
    zeroed: float
    decayed: float
    forget_ms: float
    rebuild_ms: float


def delete(table: Records, full: SupportVectorMemory, subject: str, signer: Signer) -> Outcome:
    """Delete a stay from a copy of ``full``, which holds all of ``table``, and look at the rest."""
    others = table.without(subject)
    own = sorted(set(range(len(table.ids))) - set(others))
    names = [table.ids[i] for i in own]
    weight = dict(zip(full.ids, full.weights.tolist(), strict=True))

    start = time.perf_counter()
    quick = full.copy()
    quick.forget(subject=subject)
    quick.canonicalise()
    forget_ms = 1e3 * (time.perf_counter() - start)

    memory = full.copy()
    done = memory.forget(subject=subject, certificate=signer)
    if done.certificate is None or sorted(done.removed) != sorted(names):
        raise RuntimeError(f"{subject}: {len(done.removed)} of {len(names)} rows were deleted")

    start = time.perf_counter()
    never_saw = table.memory(others[::-1])
    never_saw.canonicalise()
    rebuild_ms = 1e3 * (time.perf_counter() - start)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.svm"
        memory.save(file)
        saved = file.read_bytes()
        report = scan(folder, table.scan_rows(own), live=table.scan_rows(others))
    checked = verify(Evidence(done.certificate, saved, opening=done.opening), [signer.key.public])

    held = sum(one == subject for one in memory.subjects) + sum(name in memory for name in names)
    readout, before = memory.read(table.keys), full.read(table.keys[others])
    score, right = memory.score(table.keys), never_saw.score(table.keys)
    return Outcome(
        rows=len(own),
        weighted=sum(weight[name] > 0.0 for name in names),
        residue=held + len(report.found),
        seen=report.control is not None and report.control.shown,
        same_readouts=np.array_equal(readout, never_saw.read(table.keys)),
        same_scores=np.array_equal(score, right),
        same_digest=memory.digest() == never_saw.digest(),
        certificate=checked.conclusion,
        moved=float((np.abs(readout[others] - before) / SPREAD).max()),
        zeroed=float(np.abs(decayed_score(full, names, table.keys, 0.0) - right).max()),
        decayed=float(np.abs(decayed_score(full, names, table.keys, DECAY) - right).max()),
        forget_ms=forget_ms,
        rebuild_ms=rebuild_ms,
    )
