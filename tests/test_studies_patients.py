"""Deleting stays: the rows made of them, one deletion looked at closely, and a small run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stay_tables import physionet_npz
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.signer import Signer
from svmemory.studies import patient_deletion, patients
from svmemory.studies.patient_deletion import CENTRE, SPREAD, Records, delete, records
from svmemory.studies.result import Verdict
from svmemory.studies.settings import Settings
from svmemory.studies.stays import Stay

NAN = float("nan")


def made_up(stays: int = 6, hours: int = 5) -> Records:
    rng = np.random.default_rng(0)
    return records(
        [Stay(str(i), CENTRE + SPREAD * rng.standard_normal((40, 6))) for i in range(stays)], hours
    )


def test_rows_are_hours_on_the_declared_scale_with_the_next_hour_as_value() -> None:
    vitals = np.array([[NAN] * 6, [100.0, 140.0, NAN, 23.0, 94.0, 37.7], [NAN] * 6, CENTRE])
    table = records([Stay("7", vitals)], 2)
    assert table.subjects == ["stay 7"] * 2
    assert table.ids == ["stay 7, hour 000", "stay 7, hour 001"]
    np.testing.assert_allclose(table.keys, [[0] * 6, [1, 1, 0, 1, -1, 1]], atol=1e-12)
    filled = [100.0, 140.0, 65.0, 23.0, 94.0, 37.7]
    np.testing.assert_allclose(table.values, [filled, filled])


def test_a_deletion_leaves_nothing_and_its_certificate_verifies() -> None:
    table = made_up()
    full = table.memory(range(30))
    digest = full.digest()
    weight = dict(zip(full.ids, full.weights, strict=True))
    signer = Signer(SecretKey.generate(), "tests")
    for subject in ("stay 0", "stay 3"):
        found = delete(table, full, subject, signer)
        assert found.rows == 5
        own = [i for i, one in zip(table.ids, table.subjects, strict=True) if one == subject]
        assert found.weighted == sum(weight[name] > 0 for name in own)
        assert (found.residue, found.seen) == (0, True)
        assert (found.same_readouts, found.same_scores, found.same_digest) == (True,) * 3
        assert found.certificate == "verified"
        assert found.zeroed > 1e-6
        assert found.decayed > 1e-6
    assert full.digest() == digest  # deletions were made on copies
    assert len(full) == 30


def test_a_row_that_stays_in_the_file_is_residue(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made_up()
    full = table.memory(range(30))
    save = patient_deletion.SupportVectorMemory.save

    def careless(self: object, path: Path) -> None:
        save(self, path)  # type: ignore[arg-type]
        (path.parent / "backup.bin").write_bytes(table.keys[0].tobytes())

    monkeypatch.setattr(patient_deletion.SupportVectorMemory, "save", careless)
    found = delete(table, full, "stay 0", Signer(SecretKey.generate(), "tests"))
    assert found.residue == 1


def test_a_small_run(tmp_path: Path) -> None:
    physionet_npz(tmp_path, 7)
    done: list[tuple[int, int]] = []
    settings = Settings(
        tmp_path / "out", tmp_path, quick=True, track=lambda a, b: done.append((a, b))
    )
    study = patients.run(settings)
    assert (study.name, study.title) == ("patients", "Deleting patient records")
    checks = [f for f in study.findings if f.verdict != Verdict.shown]
    assert [f.ours for f in checks] == ["7/7"] * 5
    assert {f.verdict for f in checks} == {Verdict.met}
    assert checks[0].paper == "zero residual weight"
    assert done[-1] == (7, 7)
    assert (tmp_path / "out" / "patients.png").exists()
    again = patients.run(settings)  # the parts that were kept, their times included
    assert again.findings == study.findings
