"""What a memory can prove about itself: optimality now, and what its pruned rows would change."""

from __future__ import annotations

from . import problem
from .errors import ContractError
from .exactness import RunningCertificate
from .plan import plan
from .reads import kernel_sums
from .results import Exactness, KKTReport, PlanResult
from .view import HeldView


class Provable(HeldView):
    """The proving side of a memory."""

    _certificate: RunningCertificate
    _digest: str | None

    def canonicalise(self) -> None:
        """Put weights, sets and offset in canonical form: the exact optimum, rounded.

        Raises
        ------
        ContractError
            At ridge 0, where the optimum need not be unique.
        """
        if self.contract.ridge == 0:
            raise ContractError(
                "canonical form and digest need a ridge > 0: at 0 the weights need not be unique"
            )
        if self._digest is None:
            self._held.canonicalise()

    def kkt(self) -> KKTReport:
        """Residual, duality gap and rigorous score bound of the present state."""
        if self._held.engine is None:
            return KKTReport(0.0, 0.0, 0.0, 0.0, 0.0, "empty")
        c = self.contract
        held = c.held_mass(len(self))
        near, weights, *_ = self._held.support()
        a = self.weights
        q = kernel_sums(near, weights, self.keys, c.gamma) + c.ridge * a
        kernel_error = problem.gaussian_error(self._held.engine.dimension)
        gap = problem.duality_gap(a, q, c.ridge, held, kernel_error)
        bound = problem.score_bound(gap, a, q, c.ridge, held, self.offset, kernel_error)
        return KKTReport(
            residual=problem.kkt_residual(a, q, c.ridge, held, self.offset),
            gap=gap,
            score_bound=bound.score,
            offset_low=bound.offset_low,
            offset_high=bound.offset_high,
            status=self.status,
        )

    def exactness(self) -> Exactness:
        """Whether this memory is, provably and now, the one that kept every pruned row.

        Followed since creation or loading; no file keeps it. Puts the state in canonical form, and
        raises what :meth:`canonicalise` raises.
        """
        self.canonicalise()
        return self._certificate.report(self._held)

    def plan(self, k: int) -> PlanResult:
        """Rows that could be pruned now and not matter after k further admissions of any keys.

        Puts the state in canonical form, and raises what :meth:`canonicalise` raises; InputError if
        k is no whole number >= 0.
        """
        self.canonicalise()
        return plan(self._held, k)
