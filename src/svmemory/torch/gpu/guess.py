"""Nearly the sets of every optimum, found without a factorisation.

A few conjugate-gradient steps on the free rows, then every row goes where its mass and gradient
say, and again: stage 1 of :mod:`svmemory.torch.solve.settle` for all problems at once. What comes
out is a start; that it need not be right is why it may be float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..solve.problems import ERROR, MARGIN, RESERVE
from .launch import on_triton
from .limits import ENOUGH, NOISE, ROUNDS, STEPS


def guess(matrices: Tensor, counts: Tensor, held: Tensor, b: Tensor, codes: Tensor) -> None:
    """Improve masses and codes in place.

    Parameters
    ----------
    matrices : Tensor (P, N, N)
        ``K + ridge I`` in the type to compute in.
    counts : int64 Tensor (Q,)
        Rows of each of the Q = P L problems, L in a row of the same set; 0 where nothing is to do.
    held : Tensor (Q,)
        Sum of the masses.
    b : Tensor (Q, N)
        Masses, zero from ``counts`` on.
    codes : int32 Tensor (Q, N)
        Sets to start from.
    """
    if on_triton(matrices):
        from .kernels.guess import guess as by_kernel

        by_kernel(matrices, counts, held, b, codes)
    else:
        guess_naive(matrices, counts, held, b, codes)


def guess_naive(matrices: Tensor, counts: Tensor, held: Tensor, b: Tensor, codes: Tensor) -> None:
    """The twin of the kernel: all problems in step, those that are done held still."""
    count, n = b.shape
    inside = torch.arange(n, device=b.device) < counts[:, None]
    held = held[:, None]
    open_ = counts[:, None] > 0  # (Q, 1), as all numbers a problem here

    def multiply(x: Tensor) -> Tensor:
        return torch.bmm(x.view(len(matrices), -1, n), matrices).view(count, n)

    for _ in range(ROUNDS):
        margin = (codes == MARGIN) & inside
        size = margin.sum(1, keepdim=True)
        open_ = open_ & (size > 0)
        if not bool(open_.any()):
            return
        margin &= open_
        size = size.clamp_min(1).to(b.dtype)
        b += torch.where(margin, (held - b.sum(1, keepdim=True)) / size, 0.0)
        h = multiply(b)
        mu = torch.where(margin, h, 0.0).sum(1, keepdim=True) / size
        p = torch.where(margin, mu - h, 0.0)
        power = p.square().sum(1, keepdim=True)
        limit = torch.maximum(ENOUGH * power, (NOISE * held).square())
        for _ in range(STEPS):
            going = open_ & (power > limit)
            image = multiply(p)
            bend = (p * image).sum(1, keepdim=True)
            length = torch.where(going, power / bend, 0.0)
            b += length * p
            h += length * image
            mu = torch.where(margin, h, 0.0).sum(1, keepdim=True) / size
            r = torch.where(margin, mu - h, 0.0)
            now = torch.where(going, r.square().sum(1, keepdim=True), power)
            p = torch.where(going, r + torch.where(going, now / power, 0.0) * p, p)
            power = now
        tolerance = torch.maximum((power / size).sqrt(), NOISE * held)
        under, over = margin & (b < 0.0), margin & (b > 1.0)
        reserve, error = open_ & inside & (codes == RESERVE), open_ & inside & (codes == ERROR)
        enter = (reserve & (h < mu - tolerance)) | (error & (h > mu + tolerance))
        b.masked_fill_(under, 0.0).masked_fill_(over, 1.0)
        codes.masked_fill_(under, RESERVE).masked_fill_(over, ERROR).masked_fill_(enter, MARGIN)
        open_ = open_ & (under | over | enter).any(1, keepdim=True)
