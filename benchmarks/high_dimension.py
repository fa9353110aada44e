"""Forget one row with keys as wide as sentence embeddings, against libsvm's refit."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from common import Report, arguments
from deletion_latency import bench, victims
from trials import mean_ratio, ratio, summary

# d, rows, random victims, active victims, target
FULL = ((384, 2048, 200, 40, 200.0), (768, 2048, 100, 20, 200.0))
QUICK = ((384, 128, 10, 5, 0.0),)
NU = 0.4


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    args = arguments(__doc__).parse_args(argv)
    settings = {"nu": NU, "gamma": "1/d", "keys": "N(0, 1)"}
    report = Report("high dimension", args.quick, args.seed, settings)
    rows = []
    for d, n, random, active, target in QUICK if args.quick else FULL:
        name = f"d = {d}, n = {n:,}"
        b = bench(n, d, NU, args.seed, 0, False)
        any_row, with_weight = victims(b, args.seed, random, active)
        rows.append([f"{name}, random", *summary("", any_row, ["libsvm"])[1:]])
        rows.append([f"{name}, with weight", *summary("", with_weight, ["libsvm"])[1:]])
        report.at_least(f"libsvm / ours, random victims, {name}", ratio(any_row, "libsvm"), target)
        report.at_least(f"libsvm / ours, total time, {name}", mean_ratio(any_row, "libsvm"))
        report.at_least(f"libsvm / ours, victims with weight, {name}", ratio(with_weight, "libsvm"))
        b.report_checks(report, name)
    columns = ["victims", "turns", "events", "looks", "libsvm / ours"]
    report.table("Forget one row: medians of ratios", columns, rows)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
