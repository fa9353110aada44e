"""The paper's results, one module a result, each beside the paper's own number.

A module has a ``run(settings)`` that returns a :class:`.result.Study`; ``svmemory reproduce`` runs
them by name (:mod:`.registry`) and writes one report (:mod:`.report`).
"""
