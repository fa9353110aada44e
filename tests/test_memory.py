"""The memory's verbs: what they return, what they refuse, what they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from svmemory import (
    Contract,
    ContractError,
    DuplicateIdError,
    EmptyMemoryError,
    InputError,
    SupportVectorMemory,
    SVMemoryError,
    UnknownIdError,
    reference,
)
from svmemory.kernel import kernel_units


def filled(n=40, d=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    memory = SupportVectorMemory(**{"gamma": 0.4, "C": 1 / 12, **options})
    memory.add(
        rng.normal(size=(n, d)),
        rng.normal(size=(n, 2)),
        ids=[f"r{i}" for i in range(n)],
        subjects=[f"s{i % 7}" for i in range(n)],
    )
    return memory


# -- reading, against the formulas on the reference's weights -------------------------------------


def truth(memory):
    keys, c = memory.keys, memory.contract
    b, mu, _ = reference.canonical(kernel_units(keys, keys, c.gamma), c.ridge_units, c.mass_units)
    held = min(c.mass, len(keys))
    return b / held, 1 + c.ridge - 2 * mu / held


def test_weights_offset_and_score_follow_the_formulas():
    memory = filled()
    a, rho = truth(memory)
    memory.canonicalise()
    assert_allclose(memory.weights, a, rtol=0, atol=1e-16)
    assert memory.offset == pytest.approx(rho, abs=1e-15)
    points = np.random.default_rng(1).normal(size=(9, 3))
    square = ((points[:, None] - memory.keys[None]) ** 2).sum(-1)
    assert_allclose(memory.score(points), 2 * np.exp(-0.4 * square) @ a - rho, atol=1e-14)


def test_read_is_the_weighted_mean_of_values():
    memory = filled()
    a, _ = truth(memory)
    queries = np.random.default_rng(1).normal(size=(9, 3))
    square = ((queries[:, None] - memory.keys[None]) ** 2).sum(-1)
    p = a * np.exp(-0.4 * square)
    expected = p @ memory.values / p.sum(1, keepdims=True)
    assert_allclose(memory.read(queries), expected, atol=1e-10)


def test_read_far_from_all_keys_finds_the_nearest_active_rows():
    memory = filled()
    direction = np.array([1.0, 0.0, 0.0])
    a = memory.weights
    reach = memory.keys @ direction
    best = np.flatnonzero(a > 0)[np.argmax(reach[a > 0])]
    for far in (1e3, 1e9, 1e140):
        (read,) = memory.read([far * direction])
        assert np.isfinite(read).all()
        if far == 1e3:
            assert_allclose(read, memory.values[best], atol=1e-12)


def test_read_with_a_huge_gamma_is_the_nearest_value():
    memory = SupportVectorMemory(gamma=1e12, C=1.0)
    memory.add([[0.0], [1.0]], values=[5.0, 7.0])
    assert memory.read([[0.4], [0.6]]).tolist() == [[5.0], [7.0]]


def test_values_may_be_one_column_or_none():
    memory = SupportVectorMemory(gamma=1.0, C=1.0)
    memory.add([[0.0], [2.0]], values=[1.0, 3.0])
    assert memory.values.tolist() == [[1.0], [3.0]]
    assert memory.read([[1.0]]) == pytest.approx(2.0)
    bare = SupportVectorMemory(gamma=1.0, C=1.0)
    bare.add([[0.0], [2.0]])
    assert bare.values is None
    assert bare.value_dimension == 0
    with pytest.raises(EmptyMemoryError, match="no values"):
        bare.read([[1.0]])


# -- the paper's examples -------------------------------------------------------------------------


def test_reserve_now_is_no_promise():
    full = SupportVectorMemory(gamma=1 / 25, C=1.0, ridge=0.0)
    full.add([[-1, 0], [1, 0], [0, 0.9]], values=[1.0, 2.0, 9.0])
    pruned = full.copy()
    assert pruned.prune().removed == ["2"]
    for memory in (full, pruned):
        memory.add([[0, -10]], values=[0.0], ids=["new"])
    assert full.weights[2] == pytest.approx(0.03327001, abs=5e-9)
    points = [[-1, 0], [1, 0], [0, 0.9], [0, -10]]
    difference = np.abs(full.score(points) - pruned.score(points)).max()
    assert difference == pytest.approx(4.07857e-3, abs=5e-9)


def test_pruning_changes_no_score_and_no_read():
    memory = filled(80)
    memory.canonicalise()
    points = np.random.default_rng(1).normal(size=(20, 3))
    score, read, offset = memory.score(points), memory.read(points), memory.offset
    reserve = memory.partition.reserve
    result = memory.prune(digests=True)
    assert result.removed == reserve
    assert len(reserve) > 10
    assert (memory.score(points) == score).all()
    assert (memory.read(points) == read).all()
    assert memory.offset == offset
    fresh = SupportVectorMemory(gamma=0.4, C=1 / 12)
    fresh.add(memory.keys, memory.values, ids=memory.ids, subjects=memory.subjects)
    assert result.digest_after == fresh.digest() != result.digest_before


# -- forgetting -----------------------------------------------------------------------------------


def test_forget_a_subject_is_to_never_have_seen_it():
    memory = filled(42)
    never = SupportVectorMemory(gamma=0.4, C=1 / 12)
    rows = [i for i in range(42) if i % 7 != 3][::-1]
    never.add(
        memory.keys[rows],
        memory.values[rows],
        ids=[f"r{i}" for i in rows],
        subjects=[f"s{i % 7}" for i in rows],
    )
    with_them = memory.digest()
    sets = {
        name: kind
        for kind in ("margin", "error", "reserve")
        for name in getattr(memory.partition, kind)
    }
    result = memory.forget(subject="s3", digests=True)
    assert result.removed == [f"r{i}" for i in range(42) if i % 7 == 3]
    assert result.former == {name: sets[name] for name in result.removed}
    assert result.digest_before == with_them
    assert result.digest_after == never.digest() != with_them
    assert result.refits == 0
    points = np.random.default_rng(1).normal(size=(20, 3))
    assert (memory.score(points) == never.score(points)).all()
    assert (memory.read(points) == never.read(points)).all()
    order = [memory.ids.index(name) for name in never.ids]
    assert (memory.weights[order] == never.weights).all()


def test_forget_without_digests_costs_no_canonical_form(monkeypatch):
    memory = filled()
    from svmemory.engine import Engine

    monkeypatch.setattr(Engine, "canonicalise", lambda self: pytest.fail("canonical form"))
    memory.forget(ids="r3")
    memory.add([[0.1, 0.2, 0.3]], [[1.0, 2.0]])
    memory.read([[0.0, 0.0, 0.0]])
    memory.score([[0.0, 0.0, 0.0]])
    memory.kkt()


@pytest.mark.parametrize("ids", ["r3", ["r3", "r9"], ("r3", "r3"), np.array(["r1", "r2"])])
def test_forget_takes_one_id_or_several(ids):
    memory = filled()
    wanted = list(dict.fromkeys([ids] if isinstance(ids, str) else [str(i) for i in ids]))
    assert memory.forget(ids=ids).removed == wanted
    assert not any(name in memory for name in wanted)


def test_numbers_and_their_text_are_the_same_id():
    memory = SupportVectorMemory(gamma=1.0, C=0.5)
    assert memory.add([[0.0], [1.0]], ids=[np.int64(7), "8"]) == ["7", "8"]
    assert 7 in memory
    assert "7" in memory
    assert None not in memory
    with pytest.raises(DuplicateIdError, match="'7'"):
        memory.add([[2.0]], ids=["7"])
    assert memory.forget(ids=8).removed == ["8"]


def test_missing_ids_and_subjects():
    memory = filled()
    digest = memory.digest()
    with pytest.raises(UnknownIdError, match="'nobody'"):
        memory.forget(ids=["r1", "nobody"])
    with pytest.raises(KeyError, match="subject 'nobody'"):
        memory.forget(subject="nobody")
    assert memory.digest() == digest
    assert memory.forget(subject="nobody", missing="ignore").removed == []
    assert memory.digest() == digest
    assert memory.forget(ids=["r1", "nobody"], missing="ignore").removed == ["r1"]
    assert memory.forget(ids=[], missing="ignore").removed == []


def test_forgetting_everything_forgets_the_widths_too():
    memory = filled(10)
    memory.forget(ids=memory.ids)
    assert (len(memory), memory.ids, memory.status) == (0, [], "empty")
    assert memory.dimension is None
    assert memory.digest() == SupportVectorMemory(gamma=0.4, C=1 / 12).digest()
    for call in (lambda: memory.score([[0.0]]), lambda: memory.read([[0.0]])):
        with pytest.raises(EmptyMemoryError, match="add rows first"):
            call()
    with pytest.raises(EmptyMemoryError):
        _ = memory.offset
    memory.add([[1.0, 2.0]])
    assert memory.dimension == 2
    assert memory.stats.events >= 0


def test_numbering_goes_on_after_a_deletion():
    memory = SupportVectorMemory(gamma=1.0, C=0.5)
    assert memory.add([[0.0], [1.0]]) == ["0", "1"]
    memory.forget(ids="1")
    assert memory.add([[2.0]]) == ["2"]
    assert memory.add([[3.0]], ids=["007"]) == ["007"]
    assert memory.add([[4.0]]) == ["3"]
    assert memory.ids == ["0", "2", "007", "3"]


# -- warm-up -- -----------------------------------------------------------------------------------


def test_warm_up_has_equal_weights_and_says_so():
    memory = SupportVectorMemory(gamma=1.0, C=0.1)
    memory.add([[0.0], [1.0], [5.0]])
    assert memory.status == "warmup"
    assert memory.weights.tolist() == [1 / 3] * 3
    assert memory.kkt().status == "warmup"
    memory.add(np.arange(10.0, 20.0).reshape(-1, 1))
    assert memory.status == "optimal"


# -- kkt ------ -----------------------------------------------------------------------------------


def test_kkt_reports_an_optimum_and_bounds_the_scores():
    memory = filled(60)
    report = memory.kkt()
    _, rho = truth(memory)
    assert report.residual < 1e-13
    assert report.offset_low <= rho <= report.offset_high
    exact = memory.copy()
    exact.canonicalise()
    points = np.random.default_rng(1).normal(size=(50, 3))
    assert np.abs(memory.score(points) - exact.score(points)).max() <= report.score_bound < 1e-6
    assert SupportVectorMemory(gamma=1.0, C=1.0).kkt().status == "empty"


# -- input ---- -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"keys": [[1.0, np.nan, 2.0]], "ids": ["p9"]}, InputError, r"row 0 \(id 'p9'\), column 1"),
        ({"keys": [[1.0, np.inf, 2.0]]}, InputError, "row 0, column 1 is inf"),
        ({"keys": [[1.0, 1e200, 2.0]]}, InputError, "overflow"),
        ({"keys": [[1.0, 2.0]]}, InputError, "2 columns, this memory has 3"),
        ({"keys": [1.0, 2.0, 3.0]}, InputError, r"reshape\(1, -1\)"),
        ({"keys": np.zeros((0, 3))}, InputError, "no rows"),
        ({"keys": [["a", "b", "c"]]}, InputError, "dtype"),
        ({"keys": [[1.0, 2.0], [3.0]]}, InputError, "rows differ"),
        ({"keys": np.zeros((1, 3), complex)}, InputError, "real numbers"),
        ({"keys": np.zeros((2, 3)), "ids": ["a", "a"]}, DuplicateIdError, "'a' is given twice"),
        ({"keys": np.zeros((1, 3)), "ids": ["r5"]}, DuplicateIdError, "already held"),
        ({"keys": np.zeros((1, 3)), "ids": [1.5]}, InputError, "id of row 0"),
        ({"keys": np.zeros((1, 3)), "ids": [True]}, InputError, "truth value"),
        ({"keys": np.zeros((1, 3)), "ids": [""]}, InputError, "empty"),
        ({"keys": np.zeros((1, 3)), "ids": ["\ud800"]}, InputError, "Unicode"),
        ({"keys": np.zeros((2, 3)), "ids": ["a"]}, InputError, "1 ids were given for 2 rows"),
        ({"keys": np.zeros((1, 3)), "ids": "a"}, InputError, "must be a sequence, got one str"),
        ({"keys": np.zeros((1, 3)), "ids": b"a"}, InputError, "must be a sequence, got one bytes"),
        ({"keys": np.zeros((1, 3)), "ids": 5}, InputError, "must be a sequence, got int"),
        ({"keys": np.zeros((1, 3)), "ids": [b"a"]}, InputError, "id of row 0"),
        ({"keys": np.zeros((1, 3)), "subjects": "a"}, InputError, "must be a sequence"),
        ({"keys": np.zeros((1, 3)), "subjects": 5}, InputError, "must be a sequence"),
        ({"keys": np.zeros((1, 3)), "subjects": [np.nan]}, InputError, "None stands for"),
        ({"keys": np.ma.masked_less([[1.0, 2.0, 3.0]], 2)}, InputError, "masked"),
        ({"keys": np.zeros((2, 3)), "values": [[1], [2, 3]]}, InputError, "values must be"),
        ({"keys": np.zeros((1, 3)), "subjects": [2.5]}, InputError, "subject of row 0"),
        ({"keys": np.zeros((2, 3)), "subjects": ["a"]}, InputError, "1 subjects"),
        ({"keys": np.zeros((1, 3)), "values": None}, InputError, "give values"),
        ({"keys": np.zeros((1, 3)), "values": [[1.0]]}, InputError, "1 columns"),
        ({"keys": np.zeros((1, 3)), "values": [[1.0, np.nan]]}, InputError, "values row 0"),
        ({"keys": np.zeros((2, 3)), "values": [[1.0, 2.0]]}, InputError, "1 values"),
    ],
)
def test_bad_rows_are_named_and_lose_nothing(arguments, error, message):
    memory = filled()
    digest = memory.digest()
    given = {"values": np.zeros((len(arguments["keys"]), 2)), **arguments}
    with pytest.raises(error, match=message):
        memory.add(**given)
    assert memory.digest() == digest
    assert memory.ids == [f"r{i}" for i in range(40)]


@pytest.mark.parametrize("call", ["read", "score"])
@pytest.mark.parametrize("points", [[[1.0, 2.0]], [[np.nan, 0.0, 0.0]], [1.0, 2.0, 3.0]])
def test_bad_points_are_refused(call, points):
    with pytest.raises(InputError):
        getattr(filled(), call)(points)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.forget(),
        lambda m: m.forget(ids=["r1"], subject="s1"),
        lambda m: m.forget(ids=[]),
        lambda m: m.forget(ids=["r1"], missing="warn"),
        lambda m: m.forget(ids=[None]),
        lambda m: m.forget(ids=b"1"),
        lambda m: m.forget(ids=9.0),
        lambda m: m.forget(ids=np.array(8)),
        lambda m: m.forget(ids=np.True_),
        lambda m: m.forget(subject=b"s1"),
    ],
)
def test_bad_requests_to_forget_lose_nothing(call):
    memory = filled()
    with pytest.raises(SVMemoryError):
        call(memory)
    assert len(memory) == 40


@pytest.mark.parametrize(
    "numbers",
    [
        {"gamma": 0.0},
        {"gamma": 1e101},
        {"gamma": -1.0},
        {"gamma": math.nan},
        {"gamma": math.inf},
        {"gamma": "wide"},
        {"C": 0.0},
        {"C": -0.5},
        {"C": math.nan},
        {"C": 1e13},
        {"C": 1e-300},
        {"ridge": -1e-8},
        {"ridge": 1e-14},
        {"ridge": 1e7},
        {"ridge": math.nan},
    ],
)
def test_bad_contracts_are_refused(numbers):
    with pytest.raises(ContractError):
        SupportVectorMemory(**{"gamma": 1.0, "C": 0.5, **numbers})


@pytest.mark.parametrize(("nu", "n0"), [(0.0, 10), (1.1, 10), (0.5, 0), (0.5, 2.5), (math.nan, 5)])
def test_bad_nu_is_refused(nu, n0):
    with pytest.raises(ContractError):
        SupportVectorMemory.from_nu(nu, n0, gamma=1.0)


def test_nu_declares_the_cap_once():
    memory = SupportVectorMemory.from_nu(0.4, 30, gamma=1.0, ridge=1e-6)
    assert memory.contract == Contract(1.0, 12.0, memory.contract.ridge)
    assert memory.contract.C == 1 / 12
    assert memory.contract.ridge == pytest.approx(1e-6, abs=2.0**-53)
    assert SupportVectorMemory(1.0, 1 / 3).contract.mass == 3.0  # 3 * (1/3) stays exact


def test_inputs_are_neither_changed_nor_shared():
    keys = np.array([[-0.0, 1.0], [2.0, 3.0]])
    values = np.array([[1.0], [2.0]])
    memory = SupportVectorMemory(gamma=1.0, C=0.5)
    memory.add(keys, values)
    assert np.signbit(keys[0, 0])
    digest = memory.digest()
    keys[:], values[:] = 9.0, 9.0
    memory.keys[:], memory.values[:], memory.weights[:] = 9.0, 9.0, 9.0
    memory.ids.clear()
    assert memory.copy().digest() == digest
    assert memory.keys.tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_number_types_and_layouts_give_the_same_memory(dtype, order):
    keys = np.arange(12).reshape(6, 2) % 5
    expected = SupportVectorMemory(gamma=0.1, C=0.5)
    expected.add(keys.astype(float))
    memory = SupportVectorMemory(gamma=0.1, C=0.5)
    memory.add(np.asarray(keys, dtype=dtype, order=order))
    assert memory.digest() == expected.digest()


def test_negative_zero_is_zero():
    a, b = SupportVectorMemory(1.0, 0.5), SupportVectorMemory(1.0, 0.5)
    a.add([[0.0], [1.0]], [0.0, 1.0])
    b.add([[-0.0], [1.0]], [-0.0, 1.0])
    assert a.digest() == b.digest()


# -- digests -- -----------------------------------------------------------------------------------


def test_everything_that_names_a_memory_is_in_its_digest():
    def build(gamma=0.4, C=0.5, ridge=1e-8, key=1.0, value=2.0, name="a", subject="x"):
        memory = SupportVectorMemory(gamma, C, ridge)
        memory.add([[0.0], [key]], [0.0, value], ids=["b", name], subjects=[None, subject])
        return memory.digest()

    variants = [
        build(),
        build(gamma=0.5),
        build(C=0.4),
        build(ridge=1e-7),
        build(key=1.5),
        build(value=3.0),
        build(name="c"),
        build(subject="y"),
        build(subject=None),
    ]
    assert len(set(variants)) == len(variants)
    assert build() == variants[0]


def test_ids_and_subjects_cannot_be_confused():
    def build(ids, subjects):
        memory = SupportVectorMemory(1.0, 0.5)
        memory.add([[0.0], [1.0]], ids=ids, subjects=subjects)
        return memory.digest()

    assert build(["a", "b"], ["cd", None]) != build(["a", "b"], ["c", "d"])
    assert build(["ab", "c"], [None, None]) != build(["a", "bc"], [None, None])


def test_digest_needs_a_ridge():
    memory = filled(ridge=0.0)
    for call in (memory.digest, memory.canonicalise):
        with pytest.raises(ContractError, match="ridge > 0"):
            call()


def test_copies_are_independent():
    memory = filled()
    memory.header["note"] = {"a": 1}
    twin = memory.copy()
    digest = memory.digest()
    twin.forget(ids="r0")
    twin.header["note"]["a"] = 2
    assert memory.digest() == digest
    assert memory.header == {"note": {"a": 1}}
    assert len(memory) == 40
    assert "r0" in memory


def test_progress_is_reported():
    memory = SupportVectorMemory(1.0, 0.2)
    seen = []
    memory.add(np.arange(9.0).reshape(-1, 1), progress=lambda *x: seen.append(x))
    assert seen[-1] == (9, 9)
    seen.clear()
    memory.forget(ids=range(4), progress=lambda *x: seen.append(x))
    assert seen[-1] == (4, 4)
