"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import svmemory


def loaded_by(statement):
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in result.stdout.split()}


@pytest.mark.parametrize(
    "module",
    [
        *("torch", "sklearn", "matplotlib", "polars", "pandas", "typer", "rich"),
        *("sqlalchemy", "cryptography", "rfc8785"),
    ],
)
def test_the_memory_does_not_load(module):
    assert module not in loaded_by("from svmemory import SupportVectorMemory")


def test_the_command_line_can_be_interrupted_from_its_first_moment():
    # What takes long to load is loaded under the command line's own handling of Ctrl-C.
    assert "numba" not in loaded_by("import svmemory.cli")


@pytest.mark.parametrize("name", svmemory.__all__)
def test_every_public_name_is_there(name):
    assert getattr(svmemory, name) is not None


def test_the_estimator_loads_on_first_use():
    assert "sklearn" in loaded_by("from svmemory import OneClassSVDD")


def test_unknown_attributes_are_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = svmemory.nonsense
    assert set(svmemory.__all__) <= set(dir(svmemory))
