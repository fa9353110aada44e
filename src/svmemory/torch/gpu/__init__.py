"""The batched gate where the keys are: on a GPU, without a copy to the CPU.

Kernels in Triton (:mod:`.kernels`) where PyTorch alone would launch hundreds of small ones, batched
PyTorch for the rest. Every kernel has a twin in plain PyTorch beside its caller; the twins also run
on CPU tensors, so that all of this can be called, and is tested, without a GPU.
"""

from .readout import attend
from .solve import solve_gpu

__all__ = ["attend", "solve_gpu"]
