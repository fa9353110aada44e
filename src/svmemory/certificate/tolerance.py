"""What counts as the optimum, and as the same figure, where sums may be added in another order."""

from __future__ import annotations

RESIDUAL = 2.0**-36
"""Largest KKT residual of a canonical state, in gate-score units.

Masses and mu are rounded to float64 and heights are sums of up to n terms, so the residual is a few
units of 2**-53 times the number of active rows at worst; this allows for 2**15 of them. That the
state is *exactly* the rounded optimum is for the bit-exact check.
"""

FIGURE = 2.0**-36
"""Largest difference between a figure of the certificate and the same one computed again."""
