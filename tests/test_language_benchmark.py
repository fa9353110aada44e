"""The texts of the language benchmark, and how shares and intervals are told."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch", reason="needs the extra svmemory[torch]")

from scipy.stats import ttest_1samp

import language
from common import Report
from language_studies import Entry, studies
from redundant import redundant
from svmemory.torch.language.curves import Curves


def test_a_redundant_text_says_every_piece_four_times_within_1024_bytes() -> None:
    pieces = [bytes([i]) * 64 for i in range(11)]  # the last three do not fill four
    text = redundant(b"".join(pieces), 0)
    assert len(text) == 8 * 4 * 64
    for group, start in enumerate((0, 1024)):
        said = Counter(text[at : at + 64] for at in range(start, start + 1024, 64))
        assert said == {piece: 4 for piece in pieces[4 * group : 4 * group + 4]}
    assert text == redundant(b"".join(pieces), 0) != redundant(b"".join(pieces), 1)


def curves(best: float) -> Curves:
    return Curves(loss=[9.0], validation_step=[1], validation=[best])


def test_a_share_is_the_control_minus_the_form_by_seed() -> None:
    entries = [Entry("a", "sv", 3, {}, "b"), Entry("b", "uniform", 3, {})]
    ours, theirs = [3.0, 3.5, 2.9], [3.2, 3.4, 3.3]
    report = Report("language", False, 0, {})
    found = {"a": [curves(x) for x in ours], "b": [curves(x) for x in theirs]}
    language.tell_shares(report, entries, found)
    gaps = [b - a for a, b in zip(ours, theirs, strict=True)]
    low, high = ttest_1samp(gaps, 0.0).confidence_interval(0.95)
    ((form, control, seeds, share, span),) = report.tables[0]["rows"]
    assert (form, control, seeds) == ("a", "b", 3)
    assert share == pytest.approx(sum(gaps) / 3)
    assert span == f"{low:+.3f} to {high:+.3f}"


def test_every_control_is_an_entry_that_reads_everything() -> None:
    for entries in studies().values():
        by_name = {entry.name: entry for entry in entries}
        for entry in entries:
            if entry.control is not None:
                control = by_name[entry.control]
                assert control.attention == "uniform"
                # what concerns the gate alone may differ, what concerns the read may not
                gate = {"learn_gamma", "learn_cap", "with_values"}
                assert control.options == {k: v for k, v in entry.options.items() if k not in gate}
