"""The membership audit: it finds what is there, and would find what a deletion leaves."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from svmemory import SupportVectorMemory
from svmemory.audit import MembershipReport, run_membership
from svmemory.audit.cli import app
from svmemory.audit.lira import auc, found_at, log_ratio, outcome
from svmemory.audit.membership import CASES, OUTPUTS
from svmemory.errors import ContractError, InputError

RNG = np.random.default_rng(3)


# --- statistics --------------------------------------------------------------------------------


def test_auc_agrees_with_scikit_learn_and_counts_ties_half() -> None:
    for _ in range(5):
        members, others = RNG.integers(0, 12, 40) / 4.0, RNG.integers(0, 9, 60) / 4.0
        truth = roc_auc_score([1] * 40 + [0] * 60, np.concatenate([members, others]))
        assert auc(members, others).value == pytest.approx(truth, abs=1e-12)
    assert auc(np.ones(5), np.ones(7)).value == 0.5
    assert auc(np.arange(5.0), np.arange(5.0)).value == 0.5
    assert auc(np.arange(5.0) + 10, np.arange(5.0)).value == 1.0


def test_the_interval_of_an_auc_covers_as_often_as_it_says() -> None:
    # Normal scores a distance d apart have AUC Phi(d / sqrt 2).
    d = 1.0
    truth = norm.cdf(d / np.sqrt(2.0))
    rates = [auc(RNG.standard_normal(80) + d, RNG.standard_normal(90)) for _ in range(1000)]
    covered = sum(rate.low <= truth <= rate.high for rate in rates)
    assert 920 <= covered <= 980


def test_the_share_found_at_a_rate_of_false_alarms() -> None:
    others = np.arange(1000.0)
    members = np.array([998.5, 999.5, 989.5, 989.0, 0.0, 2000.0])
    assert found_at(0.01, members, others).value == 4 / 6  # 990, 991, ... 999 may be false alarms
    assert found_at(0.001, members, others).value == 3 / 6
    rate = found_at(0.001, np.zeros(59), np.ones(1000))
    # The "rule of three" at 95 % two-sided: 1 - 0.025 ** (1 / n) for nothing found.
    assert (rate.value, rate.low) == (0.0, 0.0)
    assert rate.high == pytest.approx(1 - 0.025 ** (1 / 59))
    rate = found_at(0.01, np.ones(59) * 2, np.ones(1000))
    assert (rate.value, rate.high) == (1.0, 1.0)
    assert rate.low == pytest.approx(0.025 ** (1 / 59))


def test_ties_are_no_finds() -> None:
    assert found_at(0.01, np.ones(100), np.ones(100)).value == 0.0


def test_log_ratio_is_that_of_the_fitted_normal_distributions() -> None:
    inside, outside = RNG.normal(3.0, 2.0, (20, 2)), RNG.normal(0.0, 1.0, (20, 2))
    numbers = RNG.standard_normal((7, 2))
    found = log_ratio(numbers, inside, outside)
    for k in range(2):
        fits = [norm(x[:, k].mean(), x[:, k].std(ddof=1)) for x in (inside, outside)]
        assert found[:, k] == pytest.approx(
            fits[0].logpdf(numbers[:, k]) - fits[1].logpdf(numbers[:, k])
        )


def test_numbers_that_never_vary_do_not_divide_by_zero() -> None:
    still = np.ones((4, 1))
    assert np.isfinite(log_ratio(np.ones((2, 1)), still, still)).all()
    assert outcome(np.zeros(10), np.zeros(10)).auc.value == 0.5


# --- the audit ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report() -> MembershipReport:
    return run_membership("redundant", draws=16, rows=16)


def test_a_record_that_is_there_is_found_and_a_forgotten_one_is_not(
    report: MembershipReport,
) -> None:
    assert report.failures == []
    assert (report.completed, report.forgotten, report.tests) == (16, 512, 256)
    assert report.identical == report.digests_equal == report.forgotten
    control = report.attack("present").auc
    assert control.low > 0.55
    for outputs in OUTPUTS:
        gone = report.attack("forgotten", outputs)
        assert gone.auc.value == 0.5
        assert gone.auc.low < 0.5 < gone.auc.high
        assert gone.at_1_percent.value <= 0.01
        assert gone.at_01_percent.value <= 0.001
    for case in ("decay", "zeroed"):
        assert report.attack(case).auc.low > 0.6, case
        assert report.attack(case).at_1_percent.low > 0.01, case


def test_every_case_is_reported_for_every_output(report: MembershipReport) -> None:
    assert [(one.case, one.outputs) for one in report.attacks] == [
        (case, outputs) for case in CASES for outputs in OUTPUTS
    ]
    for one in report.attacks:
        for rate in (one.found.auc, one.found.at_1_percent, one.found.at_01_percent):
            assert 0.0 <= rate.low <= rate.value <= rate.high <= 1.0


def test_several_processes_report_the_same() -> None:
    alone = run_membership("gaussian", draws=8, rows=4, seed=4)
    assert alone == run_membership("gaussian", draws=8, rows=4, seed=4, jobs=2)
    assert alone != run_membership("gaussian", draws=8, rows=4, seed=5)


def small(**more: Any) -> MembershipReport:
    return run_membership("gaussian", draws=8, rows=8, **more)


def test_a_memory_that_only_pretends_to_forget_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SupportVectorMemory, "forget", lambda self, ids: None)
    found = small()
    assert found.digests_equal == 0
    assert found.identical < found.forgotten
    assert any("digests equal" in one for one in found.failures)
    assert any("a forgotten record is found by" in one for one in found.failures)
    assert found.attack("forgotten").auc == found.attack("present").auc
    assert "forgotten records show" in found.problems[0]


def test_a_trace_in_the_last_bit_of_a_score_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real, forget = SupportVectorMemory.score, SupportVectorMemory.forget

    def leaky(self: SupportVectorMemory, points: Any) -> Any:
        scores = real(self, points)
        return np.nextafter(scores, 9.0) if self.header else scores

    def marked(self: SupportVectorMemory, ids: Any) -> Any:
        result = forget(self, ids=ids)
        self.header["forgot"] = True
        return result

    monkeypatch.setattr(SupportVectorMemory, "score", leaky)
    monkeypatch.setattr(SupportVectorMemory, "forget", marked)
    found = small()
    assert found.digests_equal == found.forgotten
    assert found.identical == 0
    assert f"0 of {found.forgotten} identical" in found.failures


def test_a_test_without_power_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    found = small()
    blind = [
        dataclasses.replace(one, found=found.attack("forgotten", one.outputs))
        for one in found.attacks
    ]
    assert dataclasses.replace(found, attacks=tuple(blind)).failures == [
        "the control failed: not even a record that is there is found"
    ]


def test_a_draw_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SupportVectorMemory, points: Any) -> Any:
        raise RuntimeError("no answer")

    monkeypatch.setattr(SupportVectorMemory, "read", broken)
    found = small()
    assert (found.completed, found.attacks, found.fast_score) == (0, (), None)
    assert "0 of 8 draws completed" in found.failures
    assert found.problems[0] == "draw 0: RuntimeError: no answer"


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="rows must be at least 4"):
        run_membership(rows=3)
    with pytest.raises(InputError, match="draws must be at least 8"):
        run_membership(draws=7)
    with pytest.raises(InputError, match="not unique"):
        run_membership(ridge=0.0)
    with pytest.raises(ContractError, match="ridge"):
        run_membership(ridge=1e-20)


# --- the command -------------------------------------------------------------------------------


def test_membership_command() -> None:
    ran = CliRunner().invoke(app, ["membership", "--draws", "8", "--rows", "8"])
    assert ran.exit_code in (0, 1), ran.output
    assert "outputs identical" in ran.output
    assert "128/128" in ran.output
    assert "TPR at 0.1 % FPR" in ran.output
    forgotten = [line for line in ran.output.splitlines() if "forgotten" in line]
    assert len(forgotten) == 3
    assert all("0.500" in line for line in forgotten)


def test_membership_command_as_json() -> None:
    ran = CliRunner().invoke(app, ["membership", "--draws", "8", "--rows", "8", "--json"])
    document = json.loads(ran.stdout)
    (one,) = document["regimes"]
    assert document["audit"] == "membership"
    assert ran.exit_code == (0 if one["passed"] else 1)
    assert one["identical"] == one["forgotten"] == 128
    areas = {(a["case"], a["outputs"]): a["found"]["auc"]["value"] for a in one["attacks"]}
    assert areas["forgotten", "both"] == 0.5
    assert areas["present", "both"] > 0.5


def test_membership_command_refuses_a_ridge_of_0() -> None:
    ran = CliRunner().invoke(app, ["membership", "--ridge", "0"])
    assert ran.exit_code == 2
