"""Runs the command line in a test's own folder, which holds a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from svmemory.cli import main

COLUMNS = ["--key", "HR,SBP", "--value", "sick", "--id", "id", "--subject", "person"]
BUILD = [*COLUMNS, "--nu", "0.3"]
RANGES = ["--range", "HR=0:300,SBP=0:250", "--gamma", "40", "--C", "0.1"]


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its JSON."""
        return json.loads(self.out)


Run = Callable[..., Ran]


def in_folder(folder: Path, capsys: Any, monkeypatch: Any) -> Run:
    """A function that runs the command in ``folder``, with ``p.csv``: 30 rows of 10 persons."""
    monkeypatch.chdir(folder)
    write_rows("p.csv", range(30))

    def call(*arguments: str) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main(list(arguments))
        return Ran(int(exit_.value.code or 0), *capsys.readouterr())

    return call


def write_rows(path: str, rows: Any) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "person", "HR", "SBP", "sick"])
        for i in rows:
            random = np.random.default_rng(i)
            hr, sbp = random.normal(80, 12), random.normal(120, 18)
            writer.writerow([f"{i:03d}", f"s{i // 3}", f"{hr:.2f}", f"{sbp:.2f}", i % 2])


def refused(ran: Ran, message: str) -> None:
    """Bad input: exit 2, nothing on stdout, one line on stderr that says what is wrong."""
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("svmemory: error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
