"""How far the guess of the sets goes, in the kernel as in its twin."""

ROUNDS = 8  # in which rows change sets
STEPS = 12  # of conjugate gradients in one
ENOUGH = 1e-4  # of the squared residual of a round's start is left at its end
NOISE = 1e-6  # rounding of a gradient in float32, per unit of mass
