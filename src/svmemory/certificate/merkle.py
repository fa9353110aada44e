"""Merkle trees as in RFC 6962: one hash for a list, and short proofs about it.

    leaf  = SHA-256(0x00 || data)          node = SHA-256(0x01 || left || right)

A list of n > 1 leaves is cut at the largest power of two below n. The tree of nothing is the hash
of nothing. An inclusion proof shows that a leaf is at a place of the list; a consistency proof
shows that one list is the beginning of a longer one. Both hold about log2(n) hashes, and whoever
checks them needs no list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """Hash of one entry; the prefix keeps an entry from passing for a node."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(hashes: Sequence[bytes]) -> bytes:
    """Root of the tree over leaf hashes."""
    subtrees: list[tuple[int, bytes]] = []
    for hash_ in hashes:
        _grow(subtrees, hash_)
    return _top(subtrees)


def prefix_roots(hashes: Sequence[bytes]) -> list[bytes]:
    """Roots of the first 0, 1, 2, ... leaves, up to all: one more than there are leaves."""
    subtrees: list[tuple[int, bytes]] = []
    roots = [_top(subtrees)]
    for hash_ in hashes:
        _grow(subtrees, hash_)
        roots.append(_top(subtrees))
    return roots


def inclusion_proof(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Hashes that lead from leaf ``index`` to the root, lowest first.

    Raises
    ------
    IndexError
        If there is no such leaf.
    """
    if not 0 <= index < len(hashes):
        raise IndexError(f"there is no leaf {index} among {len(hashes)}")
    proof = []
    while len(hashes) > 1:
        cut = _cut(len(hashes))
        left, right = hashes[:cut], hashes[cut:]
        if index < cut:
            proof.append(root(right))
            hashes = left
        else:
            proof.append(root(left))
            hashes, index = right, index - cut
    return proof[::-1]


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], expected: bytes
) -> bool:
    """Whether ``proof`` shows that leaf hash ``leaf`` is at ``index`` of ``size`` leaves.

    Parameters
    ----------
    leaf : bytes
        Its leaf hash.
    index, size : int
    proof : sequence of bytes
        From :func:`inclusion_proof`.
    expected : bytes
        Root of the tree of ``size`` leaves. Size and root must come from one checkpoint: a root
        alone does not fix the size, nor therefore the index.
    """
    if not 0 <= index < size:
        return False
    on_the_left = []  # for every level from the top: is the other subtree the left one
    while size > 1:
        cut = _cut(size)
        on_the_left.append(index >= cut)
        index, size = (index - cut, size - cut) if index >= cut else (index, cut)
    if len(proof) != len(on_the_left) or not _are_hashes([leaf, *proof]):
        return False
    top = leaf
    for other, left in zip(proof, reversed(on_the_left), strict=True):
        top = node_hash(other, top) if left else node_hash(top, other)
    return top == expected


def consistency_proof(hashes: Sequence[bytes], old: int) -> list[bytes]:
    """Hashes that show that the first ``old`` leaves are the beginning of all of them.

    Empty for ``old`` of 0 and for all leaves.

    Raises
    ------
    IndexError
        If there are fewer leaves.
    """
    if not 0 <= old <= len(hashes):
        raise IndexError(f"there are no {old} leaves among {len(hashes)}")
    if old == 0:
        return []
    proof = []
    whole = True  # the old tree is one of the complete subtrees passed on the way
    while old != len(hashes):
        cut = _cut(len(hashes))
        left, right = hashes[:cut], hashes[cut:]
        if old <= cut:
            proof.append(root(right))
            hashes = left
        else:
            proof.append(root(left))
            hashes, old, whole = right, old - cut, False
    if not whole:
        proof.append(root(hashes))
    return proof[::-1]


def verify_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether ``proof`` shows that a tree of ``old`` leaves is the beginning of one of ``new``.

    Parameters
    ----------
    old, new : int
        Numbers of leaves.
    old_root, new_root : bytes
    proof : sequence of bytes
        From :func:`consistency_proof`.
    """
    if not 0 <= old <= new or not _are_hashes([old_root, new_root, *proof]):
        return False
    if old == 0:
        nothing = root([])
        return not proof and old_root == nothing and (new > 0 or new_root == nothing)
    on_the_left = []
    while old != new:
        cut = _cut(new)
        on_the_left.append(old > cut)
        old, new = (old - cut, new - cut) if old > cut else (old, cut)
    rest = list(proof)
    if any(on_the_left):
        if not rest:
            return False
        below = rest.pop(0)
    else:
        below = old_root  # the old tree is a subtree of the new one
    if len(rest) != len(on_the_left):
        return False
    was, now = below, below
    for other, left in zip(rest, reversed(on_the_left), strict=True):
        if left:
            was, now = node_hash(other, was), node_hash(other, now)
        else:
            now = node_hash(now, other)
    return was == old_root and now == new_root


def _grow(subtrees: list[tuple[int, bytes]], leaf: bytes) -> None:
    """Add a leaf to complete subtrees of falling size, each with the number of its leaves."""
    size, top = 1, leaf
    while subtrees and subtrees[-1][0] == size:
        top = node_hash(subtrees.pop()[1], top)
        size *= 2
    subtrees.append((size, top))


def _top(subtrees: Sequence[tuple[int, bytes]]) -> bytes:
    """Root over complete subtrees of falling size."""
    if not subtrees:
        return hashlib.sha256(b"").digest()
    top = subtrees[-1][1]
    for _, left in reversed(subtrees[:-1]):
        top = node_hash(left, top)
    return top


def _cut(size: int) -> int:
    """Largest power of two below ``size``, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _are_hashes(items: Sequence[bytes]) -> bool:
    return all(len(item) == HASH_BYTES for item in items)
