"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(statement):
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in result.stdout.split()}


@pytest.mark.parametrize(
    "module", ["torch", "sklearn", "matplotlib", "polars", "pandas", "typer", "rich"]
)
def test_import_svmemory_does_not_load(module):
    assert module not in loaded_by("import svmemory")


def test_the_estimator_loads_on_first_use():
    assert "sklearn" in loaded_by("from svmemory import OneClassSVDD")


def test_unknown_attributes_are_errors():
    import svmemory

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = svmemory.nonsense
    assert set(svmemory.__all__) <= {*dir(svmemory), "OneClassSVDD"}
