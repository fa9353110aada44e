"""The studies by name, in the order of the report; modules load when they run."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from ..errors import InputError, SVMemoryError
from .result import Study
from .settings import MissingError, Settings, need


@dataclass(frozen=True)
class Entry:
    """A study before it runs."""

    name: str
    title: str
    module: str
    extra: str | None = None  # of this package, without which the study cannot start

    def run(self, settings: Settings) -> Study:
        """Run it; what it misses, or what stopped it, is said in the result.

        A study that fails must not take the others' results with it.
        """
        try:
            if self.extra is not None:
                need(self.extra, self.extra)
            call: Callable[[Settings], Study] = import_module(self.module, __package__).run
            return call(settings)
        except MissingError as error:
            return Study(self.name, self.title, missing=str(error))
        except SVMemoryError as error:
            return Study(self.name, self.title, missing=str(error), failed=True)
        except Exception as error:
            traceback.print_exc()
            why = f"stopped by {type(error).__name__}: {error}"
            return Study(self.name, self.title, missing=why, failed=True)


ENTRIES: tuple[Entry, ...] = (
    Entry("deletion", "Deletion against refit", ".deletion"),
    Entry("redundancy", "Rare items under skewed redundancy", ".redundancy"),
    Entry("copying", "Selective copying with growing filler", ".copying", "torch"),
    Entry("recall", "Distinct-key recall, the negative control", ".recall", "torch"),
    Entry("icu", "Which hours of a stay to keep", ".icu"),
    Entry("prediction", "The next six hours", ".prediction"),
    Entry("facts", "Forgetting and editing a fact", ".facts", "torch"),
    Entry("texts", "Forgetting an author, forgetting a patient", ".texts"),
    Entry("patients", "Deleting patient records", ".patients"),
    Entry("training", "Gradients, speed and language modelling", ".training", "torch"),
    Entry("novelty", "Novelty detection that forgets its poison", ".novelty"),
)


def entries(name: str) -> list[Entry]:
    """One study, or ``"all"``.

    Raises
    ------
    InputError
        If there is no such study.
    """
    chosen = [entry for entry in ENTRIES if name in ("all", entry.name)]
    if not chosen:
        known = ", ".join(entry.name for entry in ENTRIES)
        raise InputError(f"there is no study {name!r}; there are: {known}, all")
    return chosen
