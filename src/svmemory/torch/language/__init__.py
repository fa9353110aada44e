"""A byte-level language model, the same for every layer under comparison, and its trainer."""
