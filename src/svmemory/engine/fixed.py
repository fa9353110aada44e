"""Fixed-point vectors and exact matrix products.

A vector is a list of Python integers in units of 2**-176. Its product with a kernel block is
exact: the kernel is cut into two 26-bit halves and the vector into 16-bit limbs, so that a BLAS
product adds at most 1,024 integers below 2**42 and every partial sum is an integer below 2**53. No
order of summation, thread count or fused operation can change such a result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FRACTION = 176
"""Bits behind the point."""

_LIMBS = 13  # 16-bit limbs of a vector entry: 176 bits of fraction and 32 of signed whole part
_DIGITS = 18  # 16-bit digits of a product: limbs, 52 bits of kernel and the bits of a sum
_BLOCK = 1024
_UNIT = 2.0**52
_HALF = 2.0**26


def to_fixed(values: Floats) -> list[int]:
    """Nearest fixed-point integers of floats."""
    mantissa, exponent = np.frexp(values)
    whole = (mantissa * 2.0**53).astype(np.int64).tolist()
    shift = (exponent + (FRACTION - 53)).tolist()
    return [
        m << s if s >= 0 else (m + (1 << (-s - 1))) >> -s for m, s in zip(whole, shift, strict=True)
    ]


class ExactProduct:
    """A kernel block (p, q) ready for exact products with fixed-point vectors.

    Parameters
    ----------
    block : (p, q) array
        Whole multiples of 2**-52 in [0, 1].
    """

    def __init__(self, block: Floats) -> None:
        units = block * _UNIT
        self._high = np.floor(units / _HALF)
        self._low = units - self._high * _HALF

    def __matmul__(self, vector: list[int]) -> list[int]:
        """Product in units of 2**-(176 + 52)."""
        rows, columns = self._high.shape
        data = b"".join(x.to_bytes(2 * _LIMBS, "little", signed=True) for x in vector)
        words = np.frombuffer(data, "<u2").reshape(columns, _LIMBS)
        limbs = words.astype(np.float64)
        limbs[:, -1] = words[:, -1].astype(np.int16)  # the sign sits in the top limb
        digits = np.zeros((_DIGITS, rows), np.int64)
        for start in range(0, columns, _BLOCK):
            part = slice(start, start + _BLOCK)
            low = (self._low[:, part] @ limbs[part]).T.astype(np.int64)
            high = (self._high[:, part] @ limbs[part]).T.astype(np.int64)
            digits[:_LIMBS] += low
            digits[1 : _LIMBS + 1] += high << 10  # 2**26 is one digit and ten bits
            _carry(digits)
        text = digits.T.astype("<u2").tobytes()
        size = 2 * _DIGITS
        return [
            int.from_bytes(text[i : i + size], "little", signed=True)
            for i in range(0, rows * size, size)
        ]


def _carry(digits: NDArray[np.int64]) -> None:
    """Bring every digit into [0, 2**16); the top wraps, which is two's complement."""
    for k in range(_DIGITS - 1):
        digits[k + 1] += digits[k] >> 16
        digits[k] &= 0xFFFF
    digits[-1] &= 0xFFFF


def round_bits(value: int, bits: int) -> int:
    """Integer nearest to ``value / 2**bits``, halves to even."""
    quotient = value >> bits
    rest = value - (quotient << bits)
    half = 1 << (bits - 1)
    if rest > half or (rest == half and quotient & 1):
        quotient += 1
    return quotient


def to_grid(value: int) -> int:
    """Fixed-point integer to the 2**-112 grid, half to even, through the value it stands for.

    The refinement leaves errors below 2**-158; a value that close to a multiple of 2**-150 is that
    multiple.
    """
    return round_bits(round_bits(value, FRACTION - 150), 150 - 112)


def grid_to_float(value: int) -> float:
    """Float64 nearest to ``value * 2**-112``, halves to even."""
    return value / 2**112  # true division of integers rounds correctly
