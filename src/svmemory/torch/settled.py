"""Settings that travel with weights: the same numbers under other settings are another layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError


class Settled(nn.Module, ABC):
    """A module whose ``state_dict`` says under which settings its weights were learned.

    Weights stored without settings, or before one of them existed, are taken as they are.
    """

    @abstractmethod
    def settings(self) -> dict[str, float]:
        """The numbers that must agree, by name; new ones go to the end."""

    def get_extra_state(self) -> Tensor:
        """The settings as a tensor, which any format for weights can hold."""
        return torch.tensor(list(self.settings().values()), dtype=torch.float64, device="cpu")

    def set_extra_state(self, state: Any) -> None:
        """Compare with the settings at hand.

        Raises
        ------
        InputError
            If they differ.
        """
        here = self.settings()
        if not isinstance(state, Tensor) or state.dim() != 1 or len(state) > len(here):
            raise InputError(f"the weights come with settings that are not {', '.join(here)}")
        # weights may have been rounded on their way, the settings with them
        room = torch.finfo(state.dtype).eps if state.dtype.is_floating_point else 0.0
        for (name, given), stored in zip(here.items(), state.tolist(), strict=False):
            if not abs(stored - given) <= room * abs(given):
                raise InputError(
                    f"the weights are those of a layer with {name} {stored:g}, not {given:g}"
                )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **more: Any
    ) -> None:
        state_dict.setdefault(f"{prefix}_extra_state", self.get_extra_state())
        super()._load_from_state_dict(state_dict, prefix, *rest, **more)
