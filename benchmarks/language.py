"""Language modelling at equal state: the gate, its controls and the baselines, with intervals.

Runs are trained one after the other into --runs and go on where they stopped: with --seconds the
script stops early, and the same command continues. Differences are paired by seed, with a 95 %
interval from the t distribution. Needs the extra svmemory[torch] and a text.
"""

from __future__ import annotations

import hashlib
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from common import Report, arguments
from gate_view import View, view
from language_studies import LONGER, MATCHED, Entry, in_turn, matched, rows_read, studies
from redundant import redundant
from svmemory.studies.saved_runs import SavedRun, thinned, write_runs
from svmemory.studies.statistics import mean_interval
from svmemory.torch.language import checkpoint
from svmemory.torch.language.curves import Curves
from svmemory.torch.language.model import PRESETS, ModelConfig
from svmemory.torch.language.run import run_training
from svmemory.torch.language.text import ByteText
from svmemory.torch.language.train import CURVES, TrainConfig, refuse_another_run
from svmemory.torch.registry import LayerOptions

Runs = dict[str, dict[int, Curves]]  # by entry and seed
PIECE = 10  # steps between two looks at the clock


def main(argv: Sequence[str] | None = None) -> int:
    """Train what is missing, then report; 0 if every run is complete and every gate was solved."""
    parser = arguments(__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--study", choices=sorted(studies()), default="controls")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="tiny")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", type=Path, help="put thinned curves into this file")
    args = parser.parse_args(argv)
    stop = time.monotonic() + args.seconds
    entries = studies()[args.study]
    config = PRESETS[args.preset]
    training = TrainConfig(steps=args.steps, eval_windows=128)
    text, place = args.text, args.preset
    if args.study == "redundant":
        config = replace(config, block=LONGER)
        shorter = LONGER // PRESETS[args.preset].block
        training = replace(training, batch=training.batch // shorter, eval_windows=128 // shorter)
        place += "-redundant"
        text = args.runs / "redundant.bin"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_bytes(redundant(args.text.read_bytes()))
    if args.quick:
        config = replace(config, embed_dim=32, layers=2, block=96)
        training = TrainConfig(steps=6, batch=4, eval_every=3, eval_windows=8)
        entries = [replace(entry, seeds=min(entry.seeds, 2)) for entry in entries[:3]]
    settings = {"preset": args.preset, "steps": training.steps, "batch": training.batch}
    size = "" if args.preset == "tiny" else f", {args.preset}"
    report = Report(f"language, {args.study}{size}", args.quick, args.seed, settings)
    curves: Runs = {entry.name: {} for entry in entries}
    views: dict[str, list[View]] = {entry.name: [] for entry in entries}
    reference = curves[entries[0].name]
    for entry, seed in in_turn(entries):
        options = replace(LayerOptions(), **entry.options)
        if entry.name == MATCHED:
            if len(reference) < entries[0].seeds:
                continue  # its width is not known yet
            options = replace(options, window=matched(reference.values(), options.chunk))
        model = replace(config, attention=entry.attention, options=options)
        out = args.runs / f"{place}-{training.steps}-{slug(entry, model)}-{seed + args.seed}"
        one = replace(training, seed=seed + args.seed)
        found = train(model, one, text, out, args.threads, stop)
        if found is not None:
            curves[entry.name][one.seed] = found
            if entry.control is not None:
                views[entry.name].append(view(out / checkpoint.NAME, text))
    tell(report, entries, curves)
    tell_shares(report, entries, curves, views)
    if args.save:
        save(args.save, args.text, args.study, args.preset, training.steps, entries, curves)
    return report.finish(args.json)


def slug(entry: Entry, model: ModelConfig) -> str:
    """Folder name of a setting: the same setting in two studies is trained once."""
    options = entry.options
    if entry.name == MATCHED:
        options = {"window": model.options.window}
    chosen = "".join(f"-{name}={value}" for name, value in sorted(options.items()))
    return f"{model.attention}{chosen}".replace("_", "")


def train(
    model: ModelConfig, training: TrainConfig, text: Path, out: Path, threads: int, stop: float
) -> Curves | None:
    """Train to the end, or as far as time allows; the curves of a complete run."""
    path = out / checkpoint.NAME
    step = 0
    if path.exists():
        found = checkpoint.load(path)
        refuse_another_run(found, model, training, ByteText.from_file(text, model.block).digest)
        step = found.step
    while step < training.steps:
        if time.monotonic() > stop:
            return None
        until = min(step + PIECE, training.steps)
        run_training(model, training, text, out, resume=step > 0, until=until, threads=threads)
        step = until
    return Curves.read(out / CURVES)


def save(
    path: Path,
    text: Path,
    study: str,
    preset: str,
    steps: int,
    entries: Sequence[Entry],
    curves: Runs,
) -> None:
    """Keep what the report of the package shows; complete runs only."""
    data = text.read_bytes()
    about = {"name": text.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    runs = [
        SavedRun(
            study=study,
            label=entry.name,
            attention=entry.attention,
            control=entry.control,
            preset=preset,
            window=width_of(curves, entries) if entry.name == MATCHED else None,
            steps=steps,
            seed=seed,
            rows_read=rows_read(found) if found.support else None,
            validation_step=found.validation_step,
            validation=[float(f"{v:.5g}") for v in found.validation],
            loss=thinned(found.loss),
            gate_gradient=thinned(found.gate_gradient),
        )
        for entry in entries
        for seed, found in curves[entry.name].items()
    ]
    write_runs(path, about, runs)


def width_of(curves: Runs, entries: Sequence[Entry]) -> int:
    """Positions of the matched window."""
    return matched(curves[entries[0].name].values(), LayerOptions().chunk)


def gaps(curves: Runs, ours: str, theirs: str) -> list[float]:
    """By how much runs are worse than others of the same seeds."""
    others = curves[theirs]
    return [c.best - others[s].best for s, c in curves[ours].items() if s in others]


def tell(report: Report, entries: Sequence[Entry], curves: Runs) -> None:
    """Tables and checks."""
    first = entries[0]
    rows = []
    for entry in entries:
        runs = list(curves[entry.name].values())
        best = [c.best for c in runs]
        found = [] if entry is first else gaps(curves, entry.name, first.name)
        middle, span = shown_gap(found)
        gated = [c for c in runs if c.support]
        rows.append(
            [
                entry.name,
                f"{len(runs)}/{entry.seeds}",
                statistics.mean(best) if best else None,
                middle,
                span,
                statistics.mean(map(rows_read, gated)) if gated else None,
            ]
        )
        if runs:
            name = entry.name
            if name == MATCHED:
                name += f" ({width_of(curves, entries)} positions)"
            report.notes.append(f"{name}: {steadiness(runs)}")
        report.check(f"{entry.name}: complete", len(runs) == entry.seeds, f"{len(runs)} runs")
        if gated and entry.options.get("solver") != "paper":
            bad = sum(sum(c.unconverged) for c in gated)
            report.check(f"{entry.name}: every gate at its optimum", bad == 0, f"{bad} were not")
    report.table(
        "Best validation, bits per byte",
        ["attention", "seeds", "mean", f"minus {first.name}", "95 %", "prefix rows read"],
        rows,
    )


def tell_shares(
    report: Report, entries: Sequence[Entry], curves: Runs, views: dict[str, list[View]]
) -> None:
    """What the gate itself is worth in each form, and what it sees."""
    rows = []
    for entry in entries:
        if entry.control is not None and entry.control in curves:
            found = gaps(curves, entry.control, entry.name)
            seen = views[entry.name]
            mean = [statistics.mean(column) for column in zip(*seen, strict=True)] or [None, None]
            rows.append([entry.name, entry.control, len(found), *shown_gap(found), *mean])
    if rows:
        report.table(
            "The gate's own share, bits per byte: control minus form, same seeds",
            ["form", "control", "seeds", "share", "95 %", "gamma", "mean kernel value"],
            rows,
        )


def shown_gap(found: Sequence[float]) -> tuple[float | None, str | None]:
    """Mean of differences paired by seed and its 95 % interval; None where there are too few."""
    if not found:
        return None, None
    mean, (low, high) = mean_interval(found)
    return mean, None if math.isnan(low) else f"{low:+.3f} to {high:+.3f}"


def steadiness(runs: Sequence[Curves]) -> str:
    """How smoothly runs went, in words."""
    rises = [b - a for c in runs for a, b in pairwise(c.loss[len(c.loss) // 10 :])]
    found = f"largest rise of the loss in one step {max(rises):.3f} bits, after the first tenth"
    gates = [g for c in runs for g in c.gate_gradient]
    if any(gates):
        found += f"; gate gradient median {statistics.median(gates):.2g}, largest {max(gates):.2g}"
    return found


if __name__ == "__main__":
    sys.exit(main())
