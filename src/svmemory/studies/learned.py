"""A small language model whose learned keys are audited: what a deletion does to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

from .settings import MissingError, Settings, need

_STEPS = 60
_BLOCK = 192


def text_for(settings: Settings) -> Path:
    """The enwik8 prefix, or, without the data sets, prose that scikit-learn ships."""
    try:
        return settings.file("enwik8", "enwik8_prefix_4154399.bin")
    except MissingError:
        path = settings.out / "parts" / "prose.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(load_breast_cancer().DESCR * 6)
        return path


def described(settings: Settings) -> str:
    """What the learned keys are, in words."""
    return (
        f"24 keys of a head of a byte-level language model, 2 layers of width 64, {_STEPS} steps "
        f"on {text_for(settings).name} (the paper's: a recall model's, 32-d), at the layer's own "
        "contract"
    )


def audit_learned(settings: Settings, trials: int) -> dict[str, Any]:
    """Train, then audit: what :func:`svmemory.audit.model.run_model` found.

    Raises
    ------
    MissingError
        Without PyTorch.
    """
    need("torch", "torch")
    from ..audit.model import run_model
    from ..torch.language.checkpoint import NAME
    from ..torch.language.model import PRESETS
    from ..torch.language.run import run_training
    from ..torch.language.train import TrainConfig

    text = text_for(settings)
    folder = settings.out / "parts" / "deletion" / f"model-{settings.seed}"
    model = replace(PRESETS["tiny"], embed_dim=64, layers=2, num_heads=2, block=_BLOCK)
    training = TrainConfig(steps=_STEPS, batch=8, seed=settings.seed, eval_windows=16)
    run_training(model, training, text, folder, overwrite=True)
    report = run_model(
        folder / NAME, text, trials=trials, rows=24, seed=settings.seed, progress=settings.track
    )
    return report.as_dict()
