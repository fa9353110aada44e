"""Deleting one patient after another: residue, everyone else's answers, and a certificate each."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..certificate.keys import SecretKey
from ..certificate.signer import Request, Signer
from .figures import COLOURS, OURS, drawn
from .patient_deletion import DECAY, NU, Outcome, Records, delete, records
from .result import Figure, Study, Verdict
from .settings import Settings
from .statistics import mean_interval, share_interval
from .stays import Cohort, physionet

STAYS = 100


def run(settings: Settings) -> Study:
    """Delete each of 100 stays from the memory of all of them."""
    study = Study("patients", "Deleting patient records")
    hours = settings.size(4, 12)
    cohort = physionet(settings).sample(STAYS, settings.seed)
    table = records(cohort.stays, hours)
    outcomes = _outcomes(settings, cohort, table, hours)
    stays = len(outcomes)
    study.setting = (
        f"{stays} stays of {cohort.name}, seed {settings.seed}; the first {hours} hours of each "
        f"are rows ({len(table.ids)} in all): key the six vitals on a declared scale, value the "
        f"vitals of the next hour, subject the stay; nu {NU} of all rows, sigma 3, ridge 1e-8; "
        "every stay is deleted from the memory of all, with a signed certificate that is then "
        "verified from the saved file"
    )
    for what, hits, paper in _checks(outcomes):
        _, interval = share_interval(hits, stays)
        study.add(
            what,
            f"{hits}/{stays}",
            interval,
            paper,
            Verdict.met if hits == stays else Verdict.missed,
            "interval of the share",
        )
    moved = np.array([o.moved for o in outcomes])
    study.add(
        "stays with a row of weight: their deletion changes others' readouts",
        f"{sum(o.weighted > 0 for o in outcomes)}/{stays}",
        note=f"largest change, median {np.median(moved):.2g} and at most {moved.max():.2g} of a "
        "channel's declared spread: what a memory that never saw the stay answers",
    )
    for what, errors in (
        (f"weights decayed to {DECAY:g}", [o.decayed for o in outcomes]),
        ("weights set to 0", [o.zeroed for o in outcomes]),
    ):
        study.add(
            f"{what} instead of deletion: worst error of a gate score, mean over stays",
            *mean_interval(errors),
            note=f"largest {max(errors):.2g}; deletion: 0",
        )
    for what, times in (
        ("deletion with canonical form, ms", [o.forget_ms for o in outcomes]),
        ("building the memory that never saw the stay, ms", [o.rebuild_ms for o in outcomes]),
    ):
        study.add(what, *mean_interval(times))
    _draw(settings.out / "patients.png", outcomes)
    study.figures.append(
        Figure(
            "patients",
            "Left: the largest error of a gate score against a memory that never saw the stay, a "
            "mark a stay: exactly 0 by deletion, not so where weights are decayed or set to 0. "
            "Right: time of a deletion and of building the memory anew.",
        )
    )
    study.notes += [
        "**Readouts** are compared with a memory that never saw the stay and got the others' rows "
        "in reverse order, at the key of every row, the deleted ones too: all bits are equal. They "
        "may differ from the readouts before the deletion, which used the deleted rows.",
        "**Residue** counts rows and ids still held, and what the byte scan finds of the stay's "
        "keys, values, ids and subject in the saved file, in six number formats and three of "
        "text. Its control, live rows, must be seen.",
        "**Scale.** Vitals are put on a declared scale (heart rate 80 +- 20, and so on), not on "
        "one computed from the patients, which a deletion would not undo.",
        "**Certificates** are issued after a fresh solve of the rows left, and verified from the "
        "saved file, the certificate, its opening and the public key. The first hours of each stay "
        "are used so that a solve by another method fits a hundred times into the study's time.",
    ]
    return study


def _outcomes(settings: Settings, cohort: Cohort, table: Records, hours: int) -> list[Outcome]:
    full = table.memory(range(len(table.ids)))
    full.canonicalise()
    signer = Signer(SecretKey.generate(), "svmemory, study of patient deletion")
    subjects = list(dict.fromkeys(table.subjects))
    found = []
    for number, subject in enumerate(settings.tracked(subjects, len(subjects))):
        made_of: dict[str, Any] = {"cohort": cohort.mark(), "hours": hours, "subject": subject}
        request = Request(id=f"request {number}", ground="erasure request of the person")

        def make(subject: str = subject, request: Request = request) -> dict[str, Any]:
            return asdict(delete(table, full, subject, signer.for_request(request)))

        found.append(Outcome(**settings.kept(f"patients/{number:03d}", made_of, make)))
    return found


def _checks(outcomes: list[Outcome]) -> list[tuple[str, int, str | None]]:
    """(what, deletions for which it holds, the paper's words)."""
    return [
        (
            "deletions without residue (rows, ids, weight, bytes in the file)",
            sum(o.residue == 0 and o.seen for o in outcomes),
            "zero residual weight",
        ),
        (
            "readouts at all rows' keys bit-equal to never-saw",
            sum(o.same_readouts for o in outcomes),
            "others kept",
        ),
        ("gate scores bit-equal to never-saw", sum(o.same_scores for o in outcomes), None),
        ("digest equal to never-saw", sum(o.same_digest for o in outcomes), None),
        (
            "signed certificates that verify",
            sum(o.certificate == "verified" for o in outcomes),
            None,
        ),
    ]


def _draw(path: Path, outcomes: list[Outcome]) -> None:
    zero, floor = 1e-17, 1e-16  # where an error of exactly 0 is drawn; rounding errors lie above
    weighted = np.array([o.weighted for o in outcomes])
    shift = np.random.default_rng(0).uniform(-0.12, 0.12, len(outcomes))  # marks apart
    with drawn(path, width=9.5, height=4.2, panels=2) as (_, (left, right)):
        exact = [0.0 if o.same_scores else np.nan for o in outcomes]
        for name, errors, colour, marker, offset in (
            (f"weights times {DECAY:g}", [o.decayed for o in outcomes], COLOURS[0], "s", -0.25),
            ("weights set to 0", [o.zeroed for o in outcomes], COLOURS[1], "^", 0.25),
            ("deletion (ours)", exact, OURS, "o", 0.0),
        ):
            height = np.array(errors)
            height = np.where(height == 0.0, zero, np.maximum(height, floor))
            left.plot(
                weighted + offset + shift, height, marker, color=colour, alpha=0.6, label=name
            )
        left.set_yscale("log")
        left.set_ylim(zero / 4, 10.0)
        ticks = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3]
        left.set_yticks([zero, *ticks], ["exactly 0", *(f"1e{np.log10(t):.0f}" for t in ticks)])
        left.minorticks_off()
        left.set_xlabel("rows of the stay with weight")
        left.set_ylabel("largest error of a gate score,\nagainst a memory that never saw the stay")
        left.legend(loc="center right")
        times = [[o.forget_ms for o in outcomes], [o.rebuild_ms for o in outcomes]]
        right.boxplot(
            times, widths=0.5, showfliers=False, medianprops={"color": OURS, "linewidth": 2}
        )
        right.set_xticks([1, 2], ["delete, with\ncanonical form", "build anew\nwithout the stay"])
        right.set_ylim(bottom=0.0)
        right.set_ylabel("time (ms): median, quartiles, range\nwithin 1.5 quartile distances")
