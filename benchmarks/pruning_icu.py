"""How long a pruned memory of intensive-care vitals stays proved, and how long it stays equal.

Three streams of hourly vital signs: single stays as their hours arrive; a ward of many patients as
all their hours arrive; the same ward as its patients are forgotten one by one. Each memory is
pruned once, at several levels, and then watched. *Proved* is what ``exactness()`` says. *Equal* is
the truth, from a memory that never pruned. *Plain* is the bound without a tilt, slack minus the
length of the whole step: what the certificate would say without docs/pruning.md, section 3.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common import Report, arguments
from svmemory import InputError, SupportVectorMemory
from svmemory.audit.vitals import read_vitals, standardised
from svmemory.kernel import gaussian_kernel

Floats = NDArray[np.float64]

GAMMA = 1 / 9  # sigma = 3
DAY = 24
LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9)
"""Rows with at least this quantile of the reserve rows' slack are pruned: 0 prunes them all."""

COLUMNS = ("from quantile", "pruned", "smallest slack", "plain", "proved", "equal")


class Watch:
    """A pruned copy of a memory, and how many changes it survived.

    Attributes
    ----------
    memory : SupportVectorMemory
    pruned : list of str
        Ids that a full history holds besides.
    plain, proved, equal : int or None
        Changes before the first after which the plain bound failed, nothing was proved, or the
        two memories differed; None before that.
    wrong : int
        Proofs that were wrong.
    """

    def __init__(self, full: SupportVectorMemory, level: float) -> None:
        memory = self.memory = full.copy()
        memory.canonicalise()
        reserve = set(memory.partition.reserve)
        keys = memory.keys[[name in reserve for name in memory.ids]]
        slack = memory.score(keys) + 2 * memory.offset - (1 + memory.contract.ridge)
        result = memory.prune(keep_slack_below=max(float(np.quantile(slack, level)) - 1e-12, 0.0))
        self.pruned, self.slack = result.removed, result.slack
        self.share = len(self.pruned) / len(full)
        self.plain: int | None = None
        self.proved: int | None = None
        self.equal: int | None = None
        self.wrong = 0
        self._mu = memory.mu
        self._start = _masses(memory)
        self._keys = dict(zip(memory.ids, memory.keys, strict=True))

    def look(self, done: int, weights: dict[str, float]) -> None:
        """After ``done`` changes; ``weights`` are those of the full history's active rows."""
        equal = not any(name in weights for name in self.pruned)
        if self.equal is None and not equal:
            self.equal = done - 1
        if self.proved is None:
            proved = self.memory.exactness().proved
            self.wrong += proved and not equal
            self.proved = None if proved else done - 1
        if self.plain is None and not self._plainly():
            self.plain = done - 1

    @property
    def over(self) -> bool:
        """Whether nothing depends on the pruned memory any more."""
        return self.proved is not None and self.plain is not None

    def _plainly(self) -> bool:
        m = self.memory.contract.mass
        if len(self.memory) < m:
            return False
        self._keys |= dict(zip(self.memory.ids, self.memory.keys, strict=True))
        now = _masses(self.memory)
        names = sorted(now.keys() | self._start.keys())
        step = np.array([now.get(name, 0.0) - self._start.get(name, 0.0) for name in names])
        keys = np.array([self._keys[name] for name in names])
        length = float(step @ gaussian_kernel(keys, keys, GAMMA) @ step)
        return self.slack * m / 2 >= max(length, 0.0) ** 0.5 + abs(self.memory.mu - self._mu)


def _masses(memory: SupportVectorMemory) -> dict[str, float]:
    """Masses of the active rows, exact."""
    memory.canonicalise()
    pairs = zip(memory.ids, memory.masses.tolist(), strict=True)
    return {name: mass for name, mass in pairs if mass > 0.0}


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if no proof was wrong, 2 without data."""
    args = arguments(__doc__).parse_args(argv)
    report = Report("pruning of ICU streams", args.quick, args.seed, {"gamma": GAMMA})
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    place = Path(os.environ.get("SVMEMORY_DATA") or beside) / "physionet2019"
    try:
        found = [stay for stay in read_vitals(place).stays if len(stay) >= 2 * DAY]
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    order = np.random.default_rng(args.seed).permutation(len(found))
    stays = [found[i] for i in order]
    single_stays(report, stays[: 5 if args.quick else 200])
    beds, hours = (12, 1) if args.quick else (100, 12)
    ward, later = build_ward(stays[:beds], hours)
    arrivals(report, ward, later)
    departures(report, ward, beds // 2)
    plans(report, ward)
    return report.finish(args.json)


def single_stays(report: Report, stays: Sequence[Floats]) -> None:
    """A memory of a stay's first day, pruned; then its second day, hour by hour."""
    lives: dict[float, list[Watch]] = {level: [] for level in LEVELS}
    for stay in stays:
        keys = standardised(stay[: 2 * DAY])
        full = SupportVectorMemory.from_nu(0.3, 2 * DAY, gamma=GAMMA)
        full.add(keys[:DAY])
        full.canonicalise()
        if not full.partition.reserve:
            continue
        watches = {level: Watch(full, level) for level in LEVELS}
        for hour in range(DAY, 2 * DAY):
            follow(list(watches.values()), full, hour - DAY + 1, keys[hour], str(hour))
        for level, watch in watches.items():
            lives[level].append(watch)
    rows = [
        (
            f"{level:g}",
            f"{statistics.fmean(w.share for w in group):.0%}",
            statistics.median(w.slack for w in group),
            *(_mean(group, what) for what in ("plain", "proved", "equal")),
        )
        for level, group in lives.items()
    ]
    title = f"{len(lives[0.0])} stays, nu = 0.3, pruned after 24 hours: mean hours (of 24) until"
    report.table(title, COLUMNS, rows)
    check(report, "stays, every hour", [watch for group in lives.values() for watch in group])


def _mean(group: Sequence[Watch], what: str) -> float:
    lasted = [getattr(watch, what) for watch in group]
    return statistics.fmean(DAY if hours is None else hours for hours in lasted)


def build_ward(
    stays: Sequence[Floats], hours: int
) -> tuple[SupportVectorMemory, list[tuple[str, Floats]]]:
    """The first day of all patients in one memory, and the following hours in order of arrival."""
    width = stays[0].shape[1]
    part = np.stack([stay[: DAY + hours] for stay in stays])
    keys = standardised(part.reshape(-1, width)).reshape(part.shape)
    ward = SupportVectorMemory.from_nu(0.1, DAY * len(stays), gamma=GAMMA)
    names = [f"{bed}:{hour}" for bed in range(len(stays)) for hour in range(DAY)]
    owners = [name.split(":")[0] for name in names]
    ward.add(keys[:, :DAY].reshape(-1, width), ids=names, subjects=owners)
    later = [
        (f"{bed}:{hour}", keys[bed, hour])
        for hour in range(DAY, DAY + hours)
        for bed in range(len(stays))
    ]
    return ward, later


def arrivals(
    report: Report, ward: SupportVectorMemory, later: Sequence[tuple[str, Floats]]
) -> None:
    """Admit the later hours, one row at a time."""
    full = ward.copy()
    watches = [Watch(full, level) for level in LEVELS]
    for done, (name, key) in enumerate(later, 1):
        follow(watches, full, done, key, name)
    title = f"ward of {len(ward):,} rows, nu = 0.1: admissions (of {len(later)}) until"
    report.table(title, COLUMNS, [_row(w, level) for w, level in zip(watches, LEVELS, strict=True)])
    check(report, "ward, every admission", watches)


def departures(report: Report, ward: SupportVectorMemory, patients: int) -> None:
    """Forget patients, one at a time; the full history forgets their pruned rows as well."""
    full = ward.copy()
    watches = [Watch(full, level) for level in LEVELS]
    beds = sorted({str(owner) for owner in full.subjects}, key=int)
    leaving = np.random.default_rng(report.seed).permutation(len(beds))[:patients]
    for done, bed in enumerate((beds[i] for i in leaving), 1):
        full.forget(subject=bed)
        weights = _masses(full)
        for watch in watches:
            watch.memory.forget(subject=bed, missing="ignore")
            watch.pruned = [name for name in watch.pruned if not name.startswith(f"{bed}:")]
            watch.look(done, weights)
    title = f"ward of {len(ward):,} rows: patients forgotten (of {patients}) until"
    report.table(title, COLUMNS, [_row(w, level) for w, level in zip(watches, LEVELS, strict=True)])
    check(report, "ward, every departure", watches)


def plans(report: Report, ward: SupportVectorMemory) -> None:
    """Rows that could go whatever the next k admissions are."""
    memory = ward.copy()
    reserve = len(memory.partition.reserve)
    c, rows = memory.contract, []
    for k in (1, 2, 5, 10, 20):
        plan = memory.plan(k)
        level = float((gaussian_kernel(memory.keys, memory.keys, GAMMA) @ memory.weights).max())
        rooted = 2 * (1 + (1 + c.ridge) ** 0.5) * (2 * level * k * c.C) ** 0.5
        rows.append((k, rooted, plan.threshold, len(plan.droppable), reserve))
    columns = ["k", "4 sqrt(2 M k C)", "threshold", "droppable", "of reserve rows"]
    report.table(f"ward of {len(ward):,} rows: plan(k)", columns, rows)


def follow(
    watches: Sequence[Watch], full: SupportVectorMemory, done: int, key: Floats, name: str
) -> None:
    """Admit one row everywhere and look."""
    full.add(key[None], ids=[name])
    weights = _masses(full)
    for watch in watches:
        if not watch.over:
            watch.memory.add(key[None], ids=[name])
        watch.look(done, weights)


def _row(watch: Watch, level: float) -> tuple[str | float, ...]:
    lasted = ["all" if x is None else str(x) for x in (watch.plain, watch.proved, watch.equal)]
    return f"{level:g}", f"{watch.share:.0%}", watch.slack, *lasted


def check(report: Report, name: str, watches: Sequence[Watch]) -> None:
    """No proof may be wrong."""
    wrong = sum(watch.wrong for watch in watches)
    report.check(f"no wrong proof: {name}", wrong == 0, f"{wrong} wrong")


if __name__ == "__main__":
    sys.exit(main())
