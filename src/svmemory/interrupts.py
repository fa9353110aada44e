"""Ctrl-C at safe points only: a change is taken back or made whole, never left half-made."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class SafePoints:
    """Hold back SIGINT inside a ``with`` block, except where :meth:`check` is called.

    Where Python has no say over signals (another thread than the main one, a handler that is not
    Python's) nothing is held back, because nothing would be raised.
    """

    def __init__(self) -> None:
        self._waiting = False
        self._handler: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._wait)
        return self

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._waiting = True

    def check(self) -> None:
        """Let an interrupt that came meanwhile happen now."""
        if self._waiting:
            self._waiting = False
            self._handler(signal.SIGINT, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if kind is None:  # the change is complete: the interrupt comes right after it
                self.check()
