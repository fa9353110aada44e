"""Memory files: a function of the rows, refused when anything in them is wrong."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from svmemory import ContractError, FileFormatError, InputError, SupportVectorMemory, file

KEYS = np.random.default_rng(0).normal(size=(40, 3))


def filled(order=range(40), values=True, **options):
    memory = SupportVectorMemory(**{"gamma": 0.4, "C": 1 / 12, **options})
    rows = list(order)
    memory.add(
        KEYS[rows],
        KEYS[rows, :2] if values else None,
        ids=[f"é{i}" for i in rows],
        subjects=[None if i % 3 else f"s{i % 2}" for i in rows],
    )
    return memory


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mem.svm"


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("mass", [12.0, 12.5, 100.0, 0.06])
def test_round_trip(path, values, mass):
    memory = filled(values=values, C=1 / mass)
    memory.header = {"columns": ["a", "b"], "scale": [0.1, 1e300]}
    memory.save(path)
    loaded = SupportVectorMemory.load(path)
    order = sorted(range(40), key=lambda i: memory.ids[i].encode())
    assert loaded.ids == [memory.ids[i] for i in order]
    assert loaded.subjects == [memory.subjects[i] for i in order]
    assert (loaded.keys == memory.keys[order]).all()
    assert (loaded.weights == memory.weights[order]).all()
    assert loaded.offset == memory.offset
    assert loaded.header == memory.header
    assert loaded.contract == memory.contract
    assert loaded.digest() == memory.digest()
    if values:
        assert (loaded.values == memory.values[order]).all()
        assert (loaded.read(KEYS) == memory.read(KEYS)).all()
    else:
        assert loaded.values is None
    for m in (memory, loaded):  # both go on alike
        m.forget(ids="é7")
        m.add([[1.0, 2.0, 3.0]], [[1.0, 1.0]] if values else None, ids=["new"])
    assert loaded.digest() == memory.digest()


def test_bytes_are_those_of_a_memory_that_never_saw_the_row(tmp_path):
    memory = filled()
    memory.forget(ids=["é7", "é8"])
    never = filled(i for i in np.random.default_rng(1).permutation(40) if i not in (7, 8))
    memory.save(tmp_path / "a")
    never.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_forgotten_bytes_are_in_no_file(path):
    memory = filled()
    memory.save(path)
    gone = KEYS[7].tobytes()
    control = KEYS[9].tobytes()
    assert gone in path.read_bytes()
    memory.forget(ids="é7")
    memory.save(path)
    data = path.read_bytes()
    assert control in data
    assert gone not in data
    assert "é7".encode() not in data
    assert os.listdir(path.parent) == [path.name]


def test_empty_memory(path):
    memory = SupportVectorMemory(gamma=0.4, C=0.1)
    memory.save(path)
    loaded = SupportVectorMemory.load(path)
    assert len(loaded) == 0
    assert loaded.digest() == memory.digest()


def test_numbering_after_loading_starts_past_the_largest_number_held(path):
    memory = SupportVectorMemory(gamma=0.4, C=0.1)
    memory.add(KEYS[:4])
    memory.forget(ids=["1", "3"])
    memory.save(path)
    assert SupportVectorMemory.load(path).add(KEYS[:1]) == ["3"]


def test_without_a_ridge_there_is_no_digest_but_there_is_a_file(path):
    memory = filled(ridge=0.0)
    memory.save(path)
    loaded = SupportVectorMemory.load(path)
    assert np.abs(loaded.score(KEYS) - memory.score(KEYS)).max() < 1e-13
    with pytest.raises(ContractError):
        loaded.digest()


# -- damage --- -----------------------------------------------------------------------------------


def test_every_truncation_is_refused(path):
    memory = filled()
    memory.save(path)
    data = path.read_bytes()
    for size in [*range(0, 60), *range(60, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(FileFormatError):
            SupportVectorMemory.load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(FileFormatError):
        SupportVectorMemory.load(path)


def test_every_flipped_byte_is_refused_or_harmless(path):
    """A flip in JSON white space or in a name's case could be harmless: then nothing may differ."""
    memory = filled(range(15), C=1 / 5)
    memory.header = {"note": "abc"}
    memory.save(path)
    data = path.read_bytes()
    digest = memory.digest()
    rng = np.random.default_rng(0)
    refused = 0
    places = [*range(0, 1200), *rng.integers(0, len(data), 300).tolist()]
    for place in places:
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        try:
            loaded = SupportVectorMemory.load(path)
        except FileFormatError as error:
            refused += str(path) in str(error)
        else:
            assert loaded.digest() == digest
            assert (loaded.keys == SupportVectorMemory.load(path).keys).all()
    assert refused > 0.9 * len(places)


@given(st.binary(max_size=200))
def test_garbage_is_refused(data):
    with pytest.raises(FileFormatError):
        file.from_bytes(data)


def rewrite(path, change):
    """Save again after ``change(tensors, about)``, as a forger who knows the format would."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    about = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["svmemory"])
    tensors = dict(read_tensors(data))
    change(tensors, about)
    path.write_bytes(write_tensors(tensors, {"svmemory": json.dumps(about)}))


def put(name, value):
    def change(tensors, about):
        array = tensors[name].copy()
        array.flat[0] = value
        tensors[name] = array

    return change


def swap_weights(tensors, about):
    b = tensors["masses"].copy()
    i, j = np.argmax(b), np.argmin(b)
    b[[i, j]] = b[[j, i]]
    tensors["masses"] = b


def sneak_row(tensors, about):
    about["rows"] += 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, a: a.update(format=99), "format 99"),
        (lambda t, a: a.update(rows=0), "claims no rows"),
        (sneak_row, "shape"),
        (lambda t, a: a.update(rows="forty"), "'rows'"),
        (lambda t, a: a.update(mu="nan"), "'mu'"),
        (lambda t, a: a.update(mu=(99.0).hex()), "not the optimum"),
        (lambda t, a: a.update(digest="0" * 64), "digest mismatch"),
        (lambda t, a: a.update(digest=None), "'digest'"),
        (lambda t, a: a.update(header=[]), "'header'"),
        (lambda t, a: a["contract"].update(gamma=(0.5).hex()), "not the optimum"),
        (lambda t, a: a["contract"].update(gamma="-0x1p0"), "gamma must be > 0"),
        (lambda t, a: a["contract"].update(mass=(0.1 + 2.0**-50).hex()), "grid"),
        (lambda t, a: a["contract"].update(kernel="laplace-1"), "kernel 'laplace-1'"),
        (lambda t, a: a.pop("contract"), "'contract'"),
        (lambda t, a: t.pop("values"), "tensors"),
        (lambda t, a: t.update(extra=np.zeros(1)), "tensors"),
        (lambda t, a: t.update(keys=t["keys"].astype(np.float32)), "'keys'"),
        (put("keys", np.nan), "keys row 0"),
        (put("keys", 2.5), "not the optimum|digest mismatch"),
        (put("values", 2.5), "digest mismatch"),
        (put("masses", -0.5), r"\[0, 1\]"),
        (put("masses", np.nan), r"\[0, 1\]"),
        (swap_weights, "not the optimum"),
        (put("ids", 0xFF), "UTF-8"),
        (put("ids", ord("z")), "sorted|UTF-8"),
        (put("ids.ends", -5), "impossible places"),
        (put("ids.ends", 10**6), "impossible places"),
        (put("subjects", ord("t")), "digest mismatch"),
    ],
)
def test_forged_contents_are_refused_with_a_reason(path, change, message):
    filled().save(path)
    rewrite(path, change)
    with pytest.raises(FileFormatError, match=message):
        SupportVectorMemory.load(path)


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    memory = filled()
    memory.save(path)
    data = path.read_bytes()
    memory.forget(ids="é1")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(file.os, call, full)
            with pytest.raises(OSError, match="No space"):
                memory.save(path)
        assert path.read_bytes() == data
        assert os.listdir(path.parent) == [path.name]
    memory.header = {"good": [{1: 2}]}
    with pytest.raises(InputError, match="keys must be strings, got 1"):
        memory.save(path)
    memory.header = {"bad": object()}
    with pytest.raises(InputError, match="header"):
        memory.save(path)
    assert path.read_bytes() == data


def test_permissions_survive_a_save(path):
    memory = filled()
    memory.save(path)
    assert path.stat().st_mode & 0o777 == 0o666 & ~file._umask()
    path.chmod(0o600)
    memory.save(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_such_file_is_an_os_error(path):
    with pytest.raises(FileNotFoundError):
        SupportVectorMemory.load(path)


def test_a_link_is_written_through_and_not_over(tmp_path):
    memory = filled()
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "mem.svm", tmp_path / "link.svm"
    memory.save(real)
    link.symlink_to(real)
    memory.forget(ids="é7")
    memory.save(link)
    assert link.is_symlink()
    assert "é7" not in SupportVectorMemory.load(real)
