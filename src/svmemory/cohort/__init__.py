"""Many memories: one for each subject, stay or user, on all cores or on a cluster.

:func:`build_cohort` takes groups of rows and yields one result for each as it is ready. ``import
svmemory`` loads nothing of this, nor joblib.
"""

from __future__ import annotations

from .build import build_cohort
from .group import Group, split
from .result import CohortResult

__all__ = ["CohortResult", "Group", "build_cohort", "split"]
