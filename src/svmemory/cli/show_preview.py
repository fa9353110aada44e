"""What a preview looks like on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..preview import Preview
from .output import print_facts, print_json
from .summary import count

_LISTED = 10  # ids named on the terminal; --json has them all


def show_preview(shown: Preview, as_json: bool) -> None:
    """Print what would go, and the token."""
    if as_json:
        print_json(
            {
                "preview": shown.verb,
                "rows": shown.rows,
                "former_sets": shown.former,
                "subjects": shown.subjects,
                "missing": shown.missing,
                "rows_left": shown.rows_left,
                "token": shown.token,
            }
        )
        return
    print_facts(
        {
            f"would {shown.verb}": several(shown.rows),
            "of": count(len(shown.subjects), "subject"),
            "not held": absent_line(shown.missing),
            "rows left": shown.rows_left,
            "token": shown.token,
        }
    )


def several(rows: Sequence[str]) -> str:
    """How many rows, and the first of them."""
    listed = ", ".join(rows[:_LISTED]) + (", ..." if len(rows) > _LISTED else "")
    return count(len(rows), "row") + (f": {listed}" if rows else "")


def absent_line(missing: Sequence[str]) -> str:
    """What was asked for and is not held, the first of it."""
    return ", ".join(missing[:_LISTED]) + (", ..." if len(missing) > _LISTED else "") or "-"
