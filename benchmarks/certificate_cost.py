"""What a certificate costs beside the canonical form that it certifies.

A deletion is done with and without a certificate, in turns, from the same state in canonical form.
*Issuing* is the difference, so it holds everything that a certificate adds: the canonical form of
the state after, digests and Merkle roots of both states, optimality of every row, the signature.

It stands beside two canonical forms of the same rows. *Kept up* is the engine's after one deletion:
it holds sums over error rows at all times and skips what cannot have changed. *From the kernel* is
the same definition for rows that no engine holds, given their kernel matrix and their masses; the
target is about this one.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from common import Report, arguments, median_ratio, timed
from svmemory import Contract, SupportVectorMemory
from svmemory.certificate.deletion import state_of
from svmemory.certificate.fresh import confirm, solve_afresh
from svmemory.certificate.keys import SecretKey
from svmemory.certificate.signer import Signer
from svmemory.certificate.verify import Evidence, verify
from svmemory.engine import canonical
from svmemory.file import Content, to_bytes
from svmemory.kernel import kernel_units
from workloads import gaussian, never_saw

DIMENSION, NU = 6, 0.4
GAMMAS = (0.25, 1.0)  # few margin rows, as in the other benchmarks; many
FULL, QUICK = (2000, 12), (150, 3)  # rows, turns
TARGET = 2.0


@dataclass
class Turn:
    """Seconds of one deletion and of what may follow it."""

    forget: float
    kept_up: float
    certified: float
    from_kernel: float
    confirm: float
    size: int

    @property
    def issuing(self) -> float:
        """What the certificate adds."""
        return self.certified - self.forget


def turns(memory: SupportVectorMemory, signer: Signer, count: int) -> tuple[list[Turn], int]:
    """Forget ``count`` rows with weight, each from the full memory; turns and wrong digests."""
    sets = memory.partition
    victims = (sets.margin[: count // 2] + sets.error + sets.margin[count // 2 :])[:count]
    found, wrong = [], 0
    for victim in [victims[0], *victims]:  # the first one compiles
        plain, signed = memory.copy(), memory.copy()
        forget, _ = timed(partial(plain.forget, victim))
        kept_up, _ = timed(plain.canonicalise)
        certified, result = timed(partial(signed.forget, victim, certificate=signer))
        state = state_of(plain)
        rows, contract = state.rows, state.contract
        if rows is None or result.certificate is None:
            raise RuntimeError("the memory is empty")
        units = kernel_units(rows.keys, rows.keys, contract.gamma)
        sizes = contract.ridge_units, contract.mass_units
        from_kernel, form = timed(partial(canonical, units, *sizes, rows.b))
        checking, solved = timed(partial(confirm, rows, contract))
        wrong += form[0].tobytes() != rows.b.tobytes() or solved.digest != state.digest
        wrong += signed.digest() != plain.digest()
        size = len(result.certificate)
        found.append(Turn(forget, kept_up, certified, from_kernel, checking, size))
    return found[1:], wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if everything timed was exact and no target was missed."""
    args = arguments(__doc__).parse_args(argv)
    n, count = QUICK if args.quick else FULL
    settings = {"rows": n, "d": DIMENSION, "nu": NU, "turns": count, "check": "later"}
    report = Report("certificate cost", args.quick, args.seed, settings)
    table = []
    for gamma in GAMMAS:
        name = f"gamma = {gamma:g}"
        keys, values = gaussian(n, DIMENSION, args.seed)
        memory = SupportVectorMemory.from_contract(Contract.from_nu(NU, n, gamma))
        memory.add(keys, values, range(n))
        memory.digest()
        signer = Signer(SecretKey.generate(), "benchmark", check="later")
        done, wrong = turns(memory, signer, count)
        table.append(_row(gamma, memory, done))
        issuing = [turn.issuing for turn in done]
        whole = [turn.from_kernel for turn in done]
        kept = [turn.kept_up for turn in done]
        report.at_most(
            f"issuing / canonical form from the kernel, {name}",
            median_ratio(issuing, whole),
            TARGET,
        )
        report.at_most(f"issuing / canonical form kept up, {name}", median_ratio(issuing, kept))
        report.check(f"{name}: every digest is the same", not wrong, f"{wrong} differ")
        _verify(report, name, memory, signer, args.seed)
    columns = ["gamma", "margin", "error", "forget", "canonical, kept up", "from the kernel"]
    report.table(
        "One deletion of a row with weight, medians in ms",
        [*columns, "issuing", "check later", "bytes"],
        table,
    )
    report.notes.append(
        "issuing includes the canonical form of the state after; 'check later' is the exact check"
        " of every condition, which the verifier runs in any case"
    )
    return report.finish(args.json)


def _row(gamma: float, memory: SupportVectorMemory, done: Sequence[Turn]) -> list[float]:
    def median(name: str) -> float:
        return 1e3 * statistics.median(getattr(turn, name) for turn in done)

    sets = memory.partition
    names = ("forget", "kept_up", "from_kernel", "issuing", "confirm")
    size = int(statistics.median(turn.size for turn in done))
    return [gamma, len(sets.margin), len(sets.error), *map(median, names), size]


def _verify(
    report: Report, name: str, memory: SupportVectorMemory, signer: Signer, seed: int
) -> None:
    """One certificate verified in full; its digest is that of a memory that never saw the row."""
    ours = memory.copy()
    victim = ours.partition.margin[0]
    result = ours.forget(victim, certificate=signer)
    state = state_of(ours)
    if state.rows is None or result.certificate is None:
        raise RuntimeError("the memory is empty")
    content = Content(state.contract, state.rows, ours.digest(), ours.header)
    seconds, _ = timed(partial(solve_afresh, state.rows, state.contract))
    evidence = Evidence(result.certificate, to_bytes(content))
    whole, found = timed(partial(verify, evidence, [signer.key.public]))
    report.check(
        f"{name}: a verifier with the retained rows says verified",
        found.conclusion == "verified",
        f"{whole:.2f} s, of which the fresh solve from nothing about {seconds:.2f} s",
    )
    values = ours.values
    if values is None:
        raise RuntimeError("the memory has no values")
    other = never_saw(ours.contract, ours.keys, values, [int(i) for i in ours.ids], seed)
    report.check(f"{name}: its digest is that of a fresh memory", other == ours.digest())


if __name__ == "__main__":
    sys.exit(main())
