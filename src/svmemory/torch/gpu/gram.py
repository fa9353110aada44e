"""Gaussian kernel matrices of a batch of key sets."""

from __future__ import annotations

import torch
from torch import Tensor

from .launch import on_triton


def gram(keys: Tensor, gamma: Tensor) -> Tensor:
    """``exp(-gamma |x_i - x_j|^2)`` from differences of keys.

    Differences cancel no digits however far the keys are from the origin, and make the matrix
    symmetric and its diagonal 1 to the bit.

    Parameters
    ----------
    keys : float64 Tensor (P, N, d)
        Finite.
    gamma : float64 Tensor (P,)

    Returns
    -------
    float64 Tensor (P, N, N)
    """
    if on_triton(keys):
        from .kernels.gram import gram as by_kernel

        return by_kernel(keys, gamma)
    return gram_naive(keys, gamma)


def gram_naive(keys: Tensor, gamma: Tensor) -> Tensor:
    """The twin of the kernel: one feature at a time, so that memory stays that of the result."""
    square = keys.new_zeros(keys.shape[0], keys.shape[1], keys.shape[1])
    for x in keys.unbind(-1):  # (P, N)
        square += (x.unsqueeze(2) - x.unsqueeze(1)).square()
    return torch.exp(-gamma.view(-1, 1, 1) * square)
