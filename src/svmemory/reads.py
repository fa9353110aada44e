"""Scores and readouts from a support, with one fixed order of summation.

The caller passes active rows in the order of their ids, so that two memories with the same rows
give the same bits whatever their histories were.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .engine.factor import dot
from .kernel import fill_kernel


@njit(cache=True)
def kernel_sums(near, weights, points, gamma):  # type: ignore[no-untyped-def]
    """``sum_i weights[i] k(x, near[:, i])`` for every row x of ``points``; (q,)."""
    n = len(weights)
    column = np.empty(n)
    out = np.empty(len(points))
    for q in range(len(points)):
        fill_kernel(near, n, points[q], gamma, column)
        out[q] = dot(column, weights, n)
    return out


@njit(cache=True)
def readout(near, log_weights, values, queries, gamma):  # type: ignore[no-untyped-def]
    """Softmax of ``log a_i - gamma |q - x_i|^2`` over rows i, applied to ``values``; (q, dv).

    Distances are taken relative to the nearest row first, so that far from all keys, or for a huge
    ``gamma``, nothing underflows: the nearest row always keeps a finite exponent.
    """
    n = len(log_weights)
    width = values.shape[1]
    out = np.zeros((len(queries), width))
    exponent = np.empty(n)
    for q in range(len(queries)):
        for i in range(n):
            exponent[i] = 0.0
        for j in range(near.shape[0]):
            row = near[j]
            x = queries[q, j]
            for i in range(n):
                difference = row[i] - x
                exponent[i] += difference * difference
        nearest = exponent[0]
        for i in range(n):
            nearest = min(nearest, exponent[i])
        largest = -np.inf
        for i in range(n):
            exponent[i] = log_weights[i] - gamma * (exponent[i] - nearest)
            largest = max(largest, exponent[i])
        total = 0.0
        for i in range(n):
            share = math.exp(exponent[i] - largest)
            total += share
            for j in range(width):
                out[q, j] += share * values[i, j]
        for j in range(width):
            out[q, j] /= total
    return out
