"""The ``svmemory`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

DONE, CHECK_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Exit codes: 0 done; 1 a check failed; 2 bad input (one line on stderr says what); 130 Ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, optional
        In place of ``sys.argv[1:]``.
    """
    try:
        sys.exit(_run(arguments))
    except KeyboardInterrupt:  # also while the modules load
        sys.exit(INTERRUPTED)


def _run(arguments: Sequence[str] | None) -> int:
    from typer import Abort, TyperException

    from ..errors import SVMemoryError
    from .app import app

    try:
        # Without Typer's own handling, so that every error is one line.
        code = app(args=arguments, prog_name="svmemory", standalone_mode=False)
    except TyperException as error:  # usage errors
        return _complain(error.format_message(), error.exit_code)
    except SVMemoryError as error:
        return _complain(str(error), BAD_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", BAD_INPUT)
    except Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else DONE


def _complain(message: str, code: int) -> int:
    text = " ".join(message.split())
    if text:  # empty when Typer has printed the help instead
        print(f"svmemory: error: {text}", file=sys.stderr)
    return code
