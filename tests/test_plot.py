"""The picture: what it is computed from, and that it is drawn."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from svmemory import SupportVectorMemory
from svmemory.errors import EmptyMemoryError, InputError
from svmemory.plot import plot_memory, principal_plane, set_masks, slack

COLOURS = {"reserve": "56B4E9", "margin": "009E73", "error": "D55E00"}


def memory_of(keys: np.ndarray, nu: float = 0.3) -> SupportVectorMemory:
    memory = SupportVectorMemory.from_nu(nu, len(keys), gamma=0.3)
    memory.add(keys, ids=[f"r{i}" for i in range(len(keys))])
    return memory


@pytest.fixture(scope="module")
def memory() -> SupportVectorMemory:
    return memory_of(np.random.default_rng(4).normal(size=(40, 3)))


def test_slack_is_the_gradient_of_the_problem(memory: SupportVectorMemory) -> None:
    difference = memory.keys[:, None, :] - memory.keys[None, :, :]
    kernel = np.exp(-0.3 * (difference**2).sum(axis=2))
    ridge = memory.contract.ridge
    shifted = (kernel + ridge * np.eye(40)) @ memory.weights
    expected = memory.offset - (1.0 + ridge) + 2.0 * shifted
    assert np.abs(slack(memory) - expected).max() < 1e-14
    masks = set_masks(memory)
    assert np.abs(slack(memory)[masks["margin"]]).max() < 1e-9
    assert slack(memory)[masks["error"]].max() <= 1e-9
    assert slack(memory)[masks["reserve"]].min() >= -1e-9


def test_every_row_is_in_one_set(memory: SupportVectorMemory) -> None:
    masks = set_masks(memory)
    assert (sum(mask.astype(int) for mask in masks.values()) == 1).all()
    assert all(mask.any() for mask in masks.values())  # the other tests need all three
    assert [memory.ids[i] for i in np.flatnonzero(masks["error"])] == memory.partition.error
    assert (memory.weights[masks["reserve"]] == 0).all()


def test_principal_plane_against_the_covariance_matrix() -> None:
    keys = np.random.default_rng(5).normal(size=(60, 4)) * [3.0, 1.0, 0.5, 0.1] + 7.0
    plane, share = principal_plane(keys)
    values, vectors = np.linalg.eigh(np.cov(keys.T, bias=True))
    expected = (keys - keys.mean(axis=0)) @ vectors[:, ::-1][:, :2]
    assert np.abs(np.abs(plane) - np.abs(expected)).max() < 1e-12
    assert np.abs(share - values[::-1][:2] / values.sum()).max() < 1e-12


def test_principal_plane_of_one_column_one_row_and_equal_rows() -> None:
    plane, share = principal_plane(np.array([[1.0], [3.0]]))
    assert np.abs(plane - [[-1.0, 0.0], [1.0, 0.0]]).max() < 1e-14
    assert share.tolist() == [1.0, 0.0]
    for keys in (np.array([[1.0, 2.0]]), np.full((4, 3), 0.1)):
        plane, share = principal_plane(keys)
        assert np.abs(plane).max() < 1e-15
        assert np.isfinite(share).all()


def test_the_png_shows_all_three_sets(memory: SupportVectorMemory, tmp_path: Path) -> None:
    path = tmp_path / "m.png"
    plot_memory(memory, path, title="forty rows")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = np.rint(imread(path)[:, :, :3] * 255).astype(int)
    height, width = pixels.shape[:2]
    assert width > 2 * height
    for third in range(1, 3):  # the weights and the slack draw every set in its pure colour
        panel = pixels[:, third * width // 3 : (third + 1) * width // 3]
        for name, colour in COLOURS.items():
            rgb = [int(colour[k : k + 2], 16) for k in (0, 2, 4)]
            assert (panel == rgb).all(axis=2).sum() > 20, (third, name)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (5, 2)])
def test_small_memories_are_drawn(shape: tuple[int, int], tmp_path: Path) -> None:
    memory = memory_of(np.random.default_rng(6).normal(size=shape), nu=1.0)
    plot_memory(memory, tmp_path / "small.png")
    assert (tmp_path / "small.png").stat().st_size > 10_000


def test_rows_all_alike_are_drawn(tmp_path: Path) -> None:
    plot_memory(memory_of(np.ones((6, 2))), tmp_path / "alike.png")
    assert (tmp_path / "alike.png").stat().st_size > 10_000


def test_refusals(memory: SupportVectorMemory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png"):
        plot_memory(memory, tmp_path / "m.pdf")
    with pytest.raises(EmptyMemoryError, match="no rows"):
        plot_memory(SupportVectorMemory(gamma=1.0, C=0.5), tmp_path / "m.png")
    assert list(tmp_path.iterdir()) == []


def test_no_global_plotting_state(memory: SupportVectorMemory, tmp_path: Path) -> None:
    plot_memory(memory, tmp_path / "m.png")
    assert "matplotlib.pyplot" not in sys.modules
