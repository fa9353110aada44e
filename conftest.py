"""Which modules pytest may not import to look for examples."""

from importlib.util import find_spec

# kernels are code for Triton, which comes with PyTorch's builds for GPUs only
collect_ignore_glob = [] if find_spec("triton") else ["src/svmemory/torch/gpu/kernels/*"]
