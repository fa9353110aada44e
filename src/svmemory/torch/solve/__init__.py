"""The solvers that run on the CPU: batches of problems in, their optima and their derivative out.

``problems`` says what a batch is and what comes back. ``batched`` is the way that layers use, with
``vjp`` as its node in PyTorch's graph; ``naive`` is its slow twin, ``paper`` the scheme that it
replaces.
"""
