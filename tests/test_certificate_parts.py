"""Keys, envelopes, commitments and the independent solver, each against an outside source."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from certificates import memory_of
from svmemory import ConvergenceError, EvidenceError, SupportVectorMemory
from svmemory.certificate import exact, fresh, interior
from svmemory.certificate.checks import Check, conclusion
from svmemory.certificate.commitments import commitment
from svmemory.certificate.deletion import state_of
from svmemory.certificate.envelope import open_envelope, pre_authentication, seal
from svmemory.certificate.keys import PublicKey, SecretKey
from svmemory.certificate.optimality import judge, weighted_sums
from svmemory.certificate.state import row_bytes, share_leaves
from svmemory.kernel import gaussian_kernel
from svmemory.reference import solve

SOURCE = Path(__file__).resolve().parents[1] / "src" / "svmemory"
VECTORS = json.loads((Path(__file__).parent / "cases" / "canonical_vectors.json").read_text())

# -- keys and envelopes ---------------------------------------------------------------------------


def test_published_ed25519_vector() -> None:
    """RFC 8032, section 7.1, test 2."""
    raw = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    key = PublicKey(raw)
    assert key.verify(signature, b"\x72")
    assert not key.verify(signature, b"\x73")
    assert key.fingerprint == "sha256:" + hashlib.sha256(raw).hexdigest()


def test_published_pre_authentication_encoding() -> None:
    """The example of the DSSE specification, version 1."""
    encoded = pre_authentication("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_key_files(tmp_path: Path) -> None:
    key, path = SecretKey.generate(), tmp_path / "officer"
    public = key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PublicKey.load(public) == key.public == SecretKey.load(path).public
    assert key.public.verify(SecretKey.load(path).sign(b"x"), b"x")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="never overwritten"):
        SecretKey.generate().save(path)
    path.unlink()
    with pytest.raises(FileExistsError, match="never overwritten"):
        SecretKey.generate().save(path)
    assert not path.exists()
    path.write_bytes(before)
    path.chmod(0o640)
    if os.name == "posix":
        with pytest.raises(EvidenceError, match="read by others"):
            SecretKey.load(path)
    path.chmod(0o600)
    with pytest.raises(EvidenceError, match="no public key"):
        PublicKey.load(path)
    assert "PRIVATE" not in repr(SecretKey.load(path))


def test_other_kinds_of_keys_are_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    other = generate_private_key(SECP256R1())
    secret, public = tmp_path / "key", tmp_path / "key.pub"
    secret.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    secret.chmod(0o600)
    public.write_bytes(
        other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(EvidenceError, match="no Ed25519 key"):
        SecretKey.load(secret)
    with pytest.raises(EvidenceError, match="no Ed25519 key"):
        PublicKey.load(public)
    with pytest.raises(EvidenceError, match="32 bytes"):
        PublicKey(b"short")


def test_an_envelope_is_for_one_type_and_one_key() -> None:
    key, other = SecretKey.generate(), SecretKey.generate()
    data = seal("a/b", {"x": "1"}, key)
    opened = open_envelope(data, "a/b", [other.public, key.public])
    assert (opened.document, opened.key, opened.payload) == ({"x": "1"}, key.public, b'{"x":"1"}')
    for trusted, kind, layer in (
        ([key.public], "a/c", "encoding"),
        ([other.public], "a/b", "key"),
        ([], "a/b", "key"),
    ):
        with pytest.raises(EvidenceError) as caught:
            open_envelope(data, kind, trusted)
        assert caught.value.layer == layer
    # A hint that names another trusted key than the one that verifies.
    envelope = json.loads(data)
    envelope["signatures"][0]["keyid"] = other.public.fingerprint
    data = json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(EvidenceError, match="not the key that verifies") as caught:
        open_envelope(data, "a/b", [other.public, key.public])
    assert caught.value.layer == "key"


def test_base64_has_one_form() -> None:
    """The last letter of a signature has four bits that carry nothing; they must be zero."""
    key = SecretKey.generate()
    envelope = json.loads(seal("a/b", {"x": "1"}, key))
    text = envelope["signatures"][0]["sig"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    spare = alphabet[alphabet.index(text[-3]) + 1]
    assert base64.b64decode(text[:-3] + spare + "==") == base64.b64decode(text)  # the control
    for other in (text[:-3] + spare + "==", text[:-2], text + "\n", text[:4] + " " + text[4:]):
        envelope["signatures"][0]["sig"] = other
        data = json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()
        with pytest.raises(EvidenceError, match="base64") as caught:
            open_envelope(data, "a/b", [key.public])
        assert caught.value.layer == "encoding"


def test_commitments() -> None:
    salt = bytes(range(32))
    expected = hashlib.sha256(salt + b"domain\0text").hexdigest()
    assert commitment(salt, "domain", "text") == f"sha256:{expected}"
    with pytest.raises(EvidenceError, match="32 bytes"):
        commitment(b"short", "domain", "text")


def test_what_checks_say_together() -> None:
    passed = Check("a", "digest", "pass", "")
    warned = Check("b", "digest", "warn", "")
    left = Check("c", "digest", "not run", "")
    idle = Check("d", "digest", "not run", "", matters=False)
    failed = Check("e", "digest", "fail", "")
    assert conclusion([passed, warned, idle]) == "verified"
    assert conclusion([passed, left]) == "pending"
    assert conclusion([passed, left, failed]) == "unverified"
    assert conclusion([]) == "pending"


# -- the independent solver -----------------------------------------------------------------------


@pytest.mark.parametrize("index", range(len(VECTORS)))
def test_rational_vectors_bit_for_bit(index: int) -> None:
    case = VECTORS[index]
    units = np.array(case["kernel"], np.int64)
    kernel = units / 2.0**52
    n = len(units)
    total = min(case["mass"], n << 39)
    labels = "E" * n
    if total < n << 39:
        labels = interior.solve(kernel, case["ridge"] / 2**52, total / 2**39).labels
    starts = [labels, case["labels"], "S" * n]
    for start in starts[: 2 if n > 12 else 3]:
        b, mu, moved = exact.canonical(
            lambda rows, columns: kernel[np.ix_(rows, columns)],
            n,
            case["ridge"],
            case["mass"],
            start,
        )
        assert [x.hex() for x in b] == [float.fromhex(w).hex() for w in case["weights"]]
        assert mu.hex() == float.fromhex(case["mu"]).hex()
        assert moved == sum(x != y for x, y in zip(start, case["labels"], strict=True))


@pytest.mark.parametrize(("n", "nu", "gamma"), [(80, 0.3, 0.5), (90, 0.05, 4.0), (60, 0.9, 0.1)])
def test_interior_point_against_the_float_reference(n: int, nu: float, gamma: float) -> None:
    keys = np.random.default_rng(n).standard_normal((n, 4))
    memory = SupportVectorMemory.from_nu(nu, n, gamma=gamma)
    memory.add(keys)
    kernel = gaussian_kernel(memory.keys, memory.keys, gamma)
    expected = solve(kernel, 1e-6, nu * n)
    found = interior.solve(kernel, 1e-6, nu * n)
    assert found.labels == expected.labels
    np.testing.assert_allclose(found.b, expected.masses, atol=1e-6)


def test_a_fresh_solve_is_the_engines_to_the_bit() -> None:
    for seed in range(5):
        memory = memory_of(70, seed=seed)
        state = state_of(memory)
        assert state.rows is not None
        for solved in (
            fresh.solve_afresh(state.rows, state.contract),
            fresh.confirm(state.rows, state.contract),
        ):
            assert solved.digest == f"sha256:{memory.digest()}"
            assert (solved.weight_deviation, solved.score_deviation) == (0.0, 0.0)


def test_duplicates_and_lattices() -> None:
    """Rows that many a solver cannot tell apart, at a mass that leaves the margin empty."""
    for keys, mass in (
        (np.repeat(np.arange(4.0), 3)[:, None], 3.0),
        (np.array([[x, y] for x in range(4) for y in range(4)], float), 4.0),
        (np.zeros((9, 2)), 2.5),
        (np.eye(6) * 100.0, 3.0),
    ):
        memory = SupportVectorMemory(gamma=0.5, C=1.0 / mass)
        memory.add(keys)
        state = state_of(memory)
        assert state.rows is not None
        assert fresh.solve_afresh(state.rows, state.contract).digest == state.digest


@pytest.mark.parametrize("seed", [33, 52, 108, 112, 154, 156])
def test_past_failures_of_the_independent_solve(seed: int) -> None:
    """Drawn at random: an earlier version stopped too early, or guessed the sets too badly."""
    rng = np.random.default_rng([7, seed])
    n, d = int(rng.integers(60, 220)), int(rng.integers(1, 5))
    keys = rng.standard_normal((n, d))
    keys = (np.exp(keys), keys, np.round(3 * keys) / 3)[seed % 3]
    gamma = float(10 ** rng.uniform(-3, 1.3))
    mass = float(rng.choice([3.0, n * 0.05, 2.5]))
    memory = SupportVectorMemory(gamma=gamma, C=1.0 / mass, ridge=(1e-8, 1e-10)[seed % 2])
    memory.add(keys)
    state = state_of(memory)
    assert state.rows is not None
    assert fresh.solve_afresh(state.rows, state.contract).digest == state.digest


def test_a_solve_that_cannot_arrive_says_so() -> None:
    ones = np.ones((3, 3))  # three equal rows, and a ridge below its rounding
    with pytest.raises(ConvergenceError, match="does not converge"):
        exact.canonical(lambda rows, columns: ones[np.ix_(rows, columns)], 3, 1, 1 << 39, "SSS")


def test_judging_a_state_as_the_memory_does() -> None:
    memory = memory_of(50)
    state, kkt = state_of(memory), memory.kkt()
    assert state.rows is not None
    found = judge(state.rows, state.contract, weighted_sums(state.rows, state.contract))
    assert abs(found.residual - kkt.residual) < 1e-14
    assert abs(found.gap - kkt.gap) < 1e-12
    assert found.offset == memory.offset
    assert found.offset_low <= memory.offset <= found.offset_high


def test_rows_are_encoded_one_way_each() -> None:
    state = state_of(memory_of(4, d=2))
    assert state.rows is not None
    first = row_bytes(state.rows)[0]
    key, value = state.rows.keys[0], state.rows.values[0]
    expected = (
        (8).to_bytes(8, "little") + b"row-0000" + (8).to_bytes(8, "little") + b"person-0"
        + (2).to_bytes(8, "little") + key.astype("<f8").tobytes()
        + (2).to_bytes(8, "little") + value.astype("<f8").tobytes()
    )  # fmt: skip
    assert first == expected


def test_shared_leaves_are_those_that_would_be_hashed() -> None:
    memory = memory_of(20)
    before = state_of(memory)
    memory.forget(ids=["row-0003", "row-0019"])
    after, alone = state_of(memory), state_of(memory)
    share_leaves(before, after)
    assert "leaves" in after.__dict__
    assert after.root == alone.root
    assert alone.rows is not None
    other = state_of(memory)
    assert other.rows is not None
    other.rows.keys[4, 1] += 1.0
    share_leaves(before, other)
    assert "leaves" not in other.__dict__
    assert other.root != after.root


# -- independence ---------------------------------------------------------------------------------

ENGINE = {"engine", "holding", "memory", "reads", "view", "proofs", "centre", "rows"}


def imported_by(module: str) -> set[str]:
    """Modules of the package that a module imports, as 'certificate.verify'."""
    path = SOURCE / (module.replace(".", "/") + ".py")
    package = module.split(".")[:-1]
    if not path.exists():
        path, package = SOURCE / module.replace(".", "/") / "__init__.py", module.split(".")
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            parts = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                name = ".".join([*parts, alias.name])
                there = (SOURCE / (name.replace(".", "/") + ".py")).exists()
                found.add(name if there else ".".join(parts))
    return found - {""}


def test_the_verifier_imports_no_engine_module() -> None:
    seen: set[str] = set()
    todo = {"certificate.verify"}
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= imported_by(module) - seen
    assert {"certificate.exact", "certificate.interior", "problem", "file"} <= seen
    assert not {module for module in seen if module.split(".")[0] in ENGINE}
    # The control: who issues does import it.
    assert imported_by("certificate.self_check") & ENGINE


def test_the_verifier_runs_where_there_is_no_engine() -> None:
    """The package's own __init__ is left out, as it loads everything."""
    code = (
        "import sys, types; package = types.ModuleType('svmemory');"
        f"package.__path__ = [{str(SOURCE)!r}]; sys.modules['svmemory'] = package;"
        "import svmemory.certificate.verify;"
        "print(sorted(m for m in sys.modules if m.startswith('svmemory.engine')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_evidence_costs_nothing_to_those_who_do_not_use_it() -> None:
    code = (
        "import sys, svmemory;"
        "print([m for m in ('cryptography', 'rfc8785', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
