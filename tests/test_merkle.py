"""Merkle trees: the published vectors of RFC 6962, and proofs that cannot be bent."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svmemory.certificate.merkle import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    prefix_roots,
    root,
    verify_consistency,
    verify_inclusion,
)

# Entries, roots and proofs of the tests of Google's certificate-transparency (merkle_tree_test.cc)
# and of transparency-dev/merkle, which every implementation of RFC 6962 shares.
ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
A = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
B = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
C = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
D = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
E = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
F = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
G = "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f"

INCLUSION = [  # index, size, proof
    (0, 1, []),
    (0, 8, [A, B, C]),
    (5, 8, [D, E, ROOTS[4]]),
    (2, 3, [ROOTS[2]]),
    (1, 5, [ROOTS[1], B, D]),
]
CONSISTENCY = [  # old size, new size, proof
    (1, 1, []),
    (1, 8, [A, B, C]),
    (6, 8, [F, E, ROOTS[4]]),
    (2, 5, [B, D]),
    (6, 7, [F, G, ROOTS[4]]),
]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
ZERO = bytes(32)


def hashes(texts: list[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


@pytest.mark.parametrize("size", range(9))
def test_published_roots(size: int) -> None:
    assert root(LEAVES[:size]).hex() == ROOTS[size]


@pytest.mark.parametrize(("index", "size", "proof"), INCLUSION)
def test_published_inclusion_proofs(index: int, size: int, proof: list[str]) -> None:
    assert inclusion_proof(LEAVES[:size], index) == hashes(proof)
    top = bytes.fromhex(ROOTS[size])
    assert verify_inclusion(LEAVES[index], index, size, hashes(proof), top)


@pytest.mark.parametrize(("old", "new", "proof"), CONSISTENCY)
def test_published_consistency_proofs(old: int, new: int, proof: list[str]) -> None:
    assert consistency_proof(LEAVES[:new], old) == hashes(proof)
    tops = bytes.fromhex(ROOTS[old]), bytes.fromhex(ROOTS[new])
    assert verify_consistency(old, new, *tops, hashes(proof))


def by_definition(leaves: list[bytes]) -> bytes:
    """Merkle Tree Hash as section 2.1 of the RFC writes it down, on entries."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    both = by_definition(leaves[:k]) + by_definition(leaves[k:])
    return hashlib.sha256(b"\x01" + both).digest()


SMALL = 34


def test_every_proof_of_every_small_tree() -> None:
    entries = [bytes([i]) * i for i in range(SMALL)]
    leaves = [leaf_hash(entry) for entry in entries]
    tops = [by_definition(entries[:n]) for n in range(SMALL + 1)]
    assert prefix_roots(leaves) == tops
    for n in range(1, SMALL + 1):
        assert root(leaves[:n]) == tops[n]
        for i in range(n):
            proof = inclusion_proof(leaves[:n], i)
            assert verify_inclusion(leaves[i], i, n, proof, tops[n])
            others = [j for j in range(-1, n + 1) if j != i]
            assert not any(verify_inclusion(leaves[i], j, n, proof, tops[n]) for j in others)
        for old in range(n + 1):
            proof = consistency_proof(leaves[:n], old)
            assert verify_consistency(old, n, tops[old], tops[n], proof)
            for other in range(n + 1):
                right = verify_consistency(other, n, tops[other], tops[n], proof)
                assert right == (consistency_proof(leaves[:n], other) == proof)


@given(st.integers(1, 40), st.data())
def test_a_changed_inclusion_proof_is_refused(size: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(bytes([i])) for i in range(size)]
    index = data.draw(st.integers(0, size - 1))
    proof, top = inclusion_proof(leaves, index), root(leaves)
    leaf = leaves[index]
    bad = [
        [*proof, ZERO],
        [*proof, top],
        [ZERO, *proof],
        [top, *proof],
        *([*proof[:k], *proof[k + 1 :]] for k in range(len(proof))),
        *([*proof[:k], flipped(proof[k]), *proof[k + 1 :]] for k in range(len(proof))),
        *([*proof[:k], proof[k][:-1], *proof[k + 1 :]] for k in range(len(proof))),
    ]
    assert not any(verify_inclusion(leaf, index, size, one, top) for one in bad)
    assert not verify_inclusion(flipped(leaf), index, size, proof, top)
    assert not verify_inclusion(leaf, index, size, proof, flipped(top))
    assert not verify_inclusion(leaf, -1, size, proof, top)
    assert not verify_inclusion(leaf, size, size, proof, top)


@given(st.integers(2, 40), st.data())
def test_a_changed_consistency_proof_is_refused(size: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(bytes([i])) for i in range(size)]
    old = data.draw(st.integers(1, size - 1))
    proof = consistency_proof(leaves, old)
    was, now = root(leaves[:old]), root(leaves)
    bad = [
        [],
        [*proof, ZERO],
        [ZERO, *proof],
        [was, *proof],
        [now, *proof],
        [proof[0], *proof],
        *([*proof[:k], flipped(proof[k]), *proof[k + 1 :]] for k in range(len(proof))),
    ]
    assert not any(verify_consistency(old, size, was, now, one) for one in bad)
    assert not verify_consistency(old, size, now, was, proof)
    assert not verify_consistency(old, size, flipped(was), now, proof)
    assert not verify_consistency(old, size, was, flipped(now), proof)
    assert not verify_consistency(size, old, was, now, proof)
    assert not verify_consistency(-1, size, was, now, proof)


def flipped(hash_: bytes) -> bytes:
    return bytes([hash_[0] ^ 4]) + hash_[1:]


def test_a_leaf_cannot_pass_for_a_node() -> None:
    left, right = LEAVES[:2]
    assert leaf_hash(left + right) != node_hash(left, right)
    assert root([leaf_hash(left + right)]) != root([left, right])


def test_the_empty_list_is_the_beginning_of_every_list_and_proves_nothing_else() -> None:
    top = root(LEAVES)
    assert consistency_proof(LEAVES, 0) == []
    assert verify_consistency(0, 8, root([]), top, [])
    assert not verify_consistency(0, 8, ZERO, top, [])
    assert not verify_consistency(0, 8, root([]), top, [ZERO])
    assert not verify_consistency(0, 0, root([]), top, [])


def test_places_that_are_not_there() -> None:
    with pytest.raises(IndexError, match="no leaf 8 among 8"):
        inclusion_proof(LEAVES, 8)
    with pytest.raises(IndexError, match="no leaf -1"):
        inclusion_proof(LEAVES, -1)
    with pytest.raises(IndexError, match="no 9 leaves among 8"):
        consistency_proof(LEAVES, 9)
