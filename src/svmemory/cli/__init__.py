"""The ``svmemory`` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

DONE, CHECK_FAILED, BAD_INPUT, PENDING, INTERRUPTED, NO_READER = 0, 1, 2, 3, 130, 141


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Exit codes: 0 done; 1 a check failed; 2 bad input (one line on stderr says what); 3 not
    everything done (a certificate not checked in full, nothing held in a store, a purge pending);
    130 Ctrl-C; 141 whoever read the output through a pipe is gone.

    Parameters
    ----------
    arguments : sequence of str, optional
        In place of ``sys.argv[1:]``.
    """
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # also while typer, polars and the like load
        code = INTERRUPTED
    except BrokenPipeError:  # from stderr
        code = _pipe_closed()
    except SystemExit as stop:
        # Typer and Rich make exit code 1 of a closed pipe, which would pass for a failed check.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        code = _pipe_closed()
    sys.exit(code)


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


def _pipe_closed() -> int:
    """Exit code; what is left to write goes nowhere, or Python would complain when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
    return NO_READER
