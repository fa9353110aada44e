"""Triton programs and how they are launched; the only modules that import Triton."""
