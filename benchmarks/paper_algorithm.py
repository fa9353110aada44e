"""The paper's algorithm as written, in plain NumPy: the peer that our walk is compared with.

"Forgetful Attention" keeps the dense kernel matrix of all rows and the inverse of

    M = [[0, 1'], [1, 2 K_SS]]

over the margin S, and follows Cauwenberghs and Poggio (2000) to add or delete a row: the row's
weight moves, the margin and the offset answer linearly, the first row that meets a bound changes
its set and the inverse is bordered or contracted, and so on until the row is where it belongs.

This is our own implementation, kept as plain as the paper's description and without its faults
where that costs nothing: steps of length zero are events, and products run over whole arrays. As in
the paper there is no ridge, and no path through an empty margin: :class:`MarginEmptyError` says so.
Rows join and leave the kernel matrix by copying it, as they do in NumPy without a layout of one's
own; :meth:`PaperMemory.release` is a deletion without that copy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESERVE, MARGIN, ERROR, MOVING = 0, 1, 2, 3


class MarginEmptyError(RuntimeError):
    """The margin emptied on the way; the paper's algorithm has no step for that."""


class PaperMemory:
    """Weights over a set of rows, maintained by the inverse of the margin's KKT matrix.

    Parameters
    ----------
    keys : (n, d) array
    weights : (n,) array
        The optimum to start from: sum 1, in [0, cap], bounds met exactly.
    cap : float
        C of the paper.
    gamma : float
    """

    def __init__(self, keys: Floats, weights: Floats, cap: float, gamma: float) -> None:
        self.cap = cap
        self.gamma = gamma
        self.keys = keys.copy()
        self.gram = self._kernel(keys, keys)
        self.weights = weights.copy()
        self.sets = np.where(weights <= 0.0, RESERVE, np.where(weights >= cap, ERROR, MARGIN))
        self.margin = np.flatnonzero(self.sets == MARGIN)  # order of the rows of the inverse
        if not self.margin.size:
            raise MarginEmptyError("the start has an empty margin")
        q = 2.0 * (self.gram @ weights)
        self.rho = float(1.0 - q[self.margin].mean())
        self.residual = self.rho - 1.0 + q  # g_i = rho - K_ii + 2 (K a)_i
        size = self.margin.size
        system = np.ones((size + 1, size + 1))
        system[0, 0] = 0.0
        system[1:, 1:] = 2.0 * self.gram[np.ix_(self.margin, self.margin)]
        self.inverse = np.linalg.inv(system)
        self.events = 0

    def copy(self) -> PaperMemory:
        """An independent memory in the same state."""
        twin = PaperMemory.__new__(PaperMemory)
        twin.__dict__.update(
            {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        )
        return twin

    def delete(self, row: int) -> None:
        """Drive the weight of a row to zero, then drop its row and column of the kernel matrix."""
        self.release(row)
        self.keys = np.delete(self.keys, row, axis=0)
        self.gram = np.delete(np.delete(self.gram, row, axis=0), row, axis=1)
        self.weights = np.delete(self.weights, row)
        self.sets = np.delete(self.sets, row)
        self.residual = np.delete(self.residual, row)
        self.margin = self.margin - (self.margin > row)

    def release(self, row: int) -> None:
        """Drive the weight of a row to zero: the walk of :meth:`delete` alone."""
        if self.sets[row] == MARGIN:
            self._contract(row)
        if self.weights[row] > 0.0:
            self.sets[row] = MOVING
            self._walk(row, -1.0)
        self.sets[row] = RESERVE

    def add(self, key: Floats) -> None:
        """Append a row and raise its weight until its condition holds."""
        n = len(self.keys)
        column = self._kernel(self.keys, key[None, :])[:, 0]
        self.keys = np.concatenate([self.keys, key[None, :]])
        self.gram = np.block([[self.gram, column[:, None]], [column[None, :], np.ones((1, 1))]])
        residual = self.rho - 1.0 + 2.0 * float(column @ self.weights)
        self.weights = np.append(self.weights, 0.0)
        self.residual = np.append(self.residual, residual)
        self.sets = np.append(self.sets, RESERVE if residual >= 0.0 else MOVING)
        if residual < 0.0:
            self._walk(n, 1.0)

    # -- parts ----------------------------------------------------------------------------------

    def _walk(self, row: int, sign: float) -> None:
        """Move ``weights[row]`` by events in direction ``sign`` until it is where it belongs."""
        for _ in range(1000 + 10 * len(self.keys)):
            if not self.margin.size:
                raise MarginEmptyError("the margin is empty")
            answer, slope = self._direction(row, sign)
            step, event = self._first_event(row, sign, answer[1:], slope)
            self.weights[self.margin] += step * answer[1:]
            self.weights[row] += sign * step
            self.rho += step * float(answer[0])
            self.residual += step * slope
            self.events += 1
            if event == row:
                self._arrive(row, sign)
                return
            if self.sets[event] == MARGIN:
                low = self.weights[event] < 0.5 * self.cap
                self._contract(event)
                self.weights[event] = 0.0 if low else self.cap
                self.sets[event] = RESERVE if low else ERROR
            else:
                self.residual[event] = 0.0
                self._expand(event)
        raise RuntimeError("the path did not end")

    def _direction(self, row: int, sign: float) -> tuple[Floats, Floats]:
        """Change of (rho, margin weights) and of all residuals per unit of moved weight."""
        border = np.concatenate([[1.0], 2.0 * self.gram[row, self.margin]])
        answer = -sign * (self.inverse @ border)
        slope = answer[0] + 2.0 * (answer[1:] @ self.gram[self.margin] + sign * self.gram[row])
        slope[self.margin] = 0.0
        return answer, slope

    def _first_event(
        self, row: int, sign: float, change: Floats, slope: Floats
    ) -> tuple[float, int]:
        """Length of the step to the first event, and the row that it happens to."""
        weights = self.weights[self.margin]
        room = np.full(len(weights), np.inf)
        np.divide(self.cap - weights, change, out=room, where=change > 0.0)
        np.divide(weights, -change, out=room, where=change < 0.0)
        rising = (self.sets == ERROR) & (slope > 0.0)  # an error row has g <= 0
        falling = (self.sets == RESERVE) & (slope < 0.0)  # a reserve row has g >= 0
        reach = np.full(len(slope), np.inf)
        np.divide(-self.residual, slope, out=reach, where=rising | falling)
        if sign < 0.0:
            own = self.weights[row]
        else:
            own = self.cap - self.weights[row]
            if slope[row] > 0.0:
                own = min(own, -self.residual[row] / slope[row])
        leaving, entering = int(room.argmin()), int(reach.argmin())
        step = max(0.0, min(float(own), float(room[leaving]), float(reach[entering])))
        if own <= step:
            return step, row
        return step, int(self.margin[leaving]) if room[leaving] <= step else entering

    def _arrive(self, row: int, sign: float) -> None:
        if sign < 0.0:
            self.weights[row] = 0.0
        elif self.cap - self.weights[row] <= 1e-14 * self.cap:
            self.weights[row] = self.cap
            self.sets[row] = ERROR
        else:
            self.residual[row] = 0.0
            self._expand(row)

    def _expand(self, row: int) -> None:
        """Border the inverse with a row that joins the margin."""
        border = np.concatenate([[1.0], 2.0 * self.gram[row, self.margin]])
        beta = -self.inverse @ border
        pivot = 2.0 * self.gram[row, row] + border @ beta
        tall = np.append(beta, 1.0)
        size = len(tall)
        inverse = np.zeros((size, size))
        inverse[:-1, :-1] = self.inverse
        self.inverse = inverse + np.outer(tall, tall / pivot)
        self.margin = np.append(self.margin, row)
        self.sets[row] = MARGIN

    def _contract(self, row: int) -> None:
        """Take a row of the margin out of the inverse."""
        if self.margin.size == 1:
            raise MarginEmptyError("the last row would leave the margin")
        place = int(np.flatnonzero(self.margin == row)[0]) + 1
        column = self.inverse[:, place]
        smaller = self.inverse - np.outer(column, column / column[place])
        self.inverse = np.delete(np.delete(smaller, place, axis=0), place, axis=1)
        self.margin = np.delete(self.margin, place - 1)

    def _kernel(self, left: Floats, right: Floats) -> Floats:
        square = (
            (left * left).sum(axis=1)[:, None]
            + (right * right).sum(axis=1)[None, :]
            - 2.0 * (left @ right.T)
        )
        kernel: Floats = np.exp(-self.gamma * np.maximum(square, 0.0))
        return kernel
