"""What stays in the files after a deletion: svmemory beside chromadb, sqlite-vec and mem0.

Every system gets 200 records (a vector, an id, a text that names a person), is closed, deletes 100
of them as its documentation says, is closed again, and is compacted where it offers that. After
each step a byte scan of its folder looks for the 100 records; the other 100 are the control. Every
step runs in a process of its own, so that nothing is missed because it was only in memory.

The peers are no dependencies: `pip install chromadb sqlite-vec apsw mem0ai` beside svmemory. What
cannot be imported is named and left out. mem0 runs with a stand-in for its embedding model and
without its language model (`infer=False`): what is looked at is what it stores. It keeps vectors as
pickled numbers, which a byte scan does not see, so of it only the texts are reported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from common import Report, arguments, timed
from svmemory import Contract, SupportVectorMemory
from svmemory.scan import ScanReport, ScanRow, scan

RECORDS, GONE, DIMENSION = 200, 100, 32
STEPS = ("write", "delete", "compact")
SEED = 0


def records() -> list[ScanRow]:
    """The records, the first GONE to be deleted; vectors are exact in the peers' float32."""
    vectors = np.random.default_rng(SEED).standard_normal((RECORDS, DIMENSION)).astype("f4")
    return [
        ScanRow(f"record-{i:05d}", vectors[i].astype("f8"), None, f"person {i:05d} takes lithium")
        for i in range(RECORDS)
    ]


# -- ours ---------------------------------------------------------------------------------------


def svmemory_file(step: str, folder: Path) -> bool:
    """A memory in a file."""
    path = folder / "memory.svm"
    if step == "write":
        memory = SupportVectorMemory(gamma=0.02, C=0.02)
        rows = records()
        memory.add(
            [row.key for row in rows],
            ids=[row.id for row in rows],
            subjects=[row.subject for row in rows],
        )
    else:
        memory = SupportVectorMemory.load(path)
        memory.forget(ids=[row.id for row in records()[:GONE]])
    memory.save(path)
    return True


def svmemory_store(step: str, folder: Path) -> bool:
    """A memory in a store."""
    from svmemory.store import Store

    with Store(f"sqlite:///{folder / 'store.db'}") as store:
        rows = records()
        if step == "write":
            memory = store.create("patients", Contract.from_cap(gamma=0.02, C=0.02))
            memory.add(
                [row.key for row in rows],
                ids=[row.id for row in rows],
                subjects=[row.subject for row in rows],
            )
        else:
            store.open("patients").forget(ids=[row.id for row in rows[:GONE]])
    return True


# -- peers --------------------------------------------------------------------------------------


def chromadb(step: str, folder: Path) -> bool:
    """A collection of a persistent client; compacted by `chroma vacuum`."""
    import chromadb as chroma

    if step == "compact":
        command = Path(sys.executable).with_name("chroma")
        if not command.exists():
            return False
        done = subprocess.run(
            [str(command), "vacuum", "--path", str(folder), "--force"], capture_output=True
        )
        return done.returncode == 0
    settings = chroma.Settings(anonymized_telemetry=False)
    client = chroma.PersistentClient(str(folder), settings=settings)
    collection = client.get_or_create_collection("patients", embedding_function=None)
    rows = records()
    if step == "write":
        collection.add(
            ids=[row.id for row in rows],
            embeddings=np.array([row.key for row in rows], "f4"),
            documents=[str(row.subject) for row in rows],
        )
    else:
        collection.delete(ids=[row.id for row in rows[:GONE]])
        assert_count(collection.count())
    return True


def sqlite_vec(step: str, folder: Path) -> bool:
    """A vec0 table with a text column; compacted by VACUUM."""
    import apsw  # not every Python's own sqlite3 can load extensions
    import sqlite_vec as vec

    base = apsw.Connection(str(folder / "vectors.db"))
    base.enable_load_extension(True)
    base.load_extension(vec.loadable_path())
    if step == "write":
        base.execute(
            f"create virtual table rows using vec0(id text primary key, key float[{DIMENSION}],"
            " +note text)"
        )
        base.executemany(
            "insert into rows (id, key, note) values (?, ?, ?)",
            [(row.id, row.key.astype("f4").tobytes(), row.subject) for row in records()],
        )
    elif step == "delete":
        base.executemany("delete from rows where id = ?", [(row.id,) for row in records()[:GONE]])
        assert_count(next(base.execute("select count(*) from rows"))[0])
    else:
        base.execute("vacuum")
    base.close()
    return True


def mem0(step: str, folder: Path) -> bool:
    """A memory over a local Qdrant; its history is in a database of its own."""
    if step == "compact":
        base = sqlite3.connect(folder / "history.db", isolation_level=None)
        base.execute("vacuum")
        base.close()
        return True
    os.environ |= {"MEM0_DIR": str(folder / "mem0"), "MEM0_TELEMETRY": "False"}
    os.environ.setdefault("OPENAI_API_KEY", "never used")
    from mem0 import Memory

    store = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": DIMENSION}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(folder / "history.db"),
        }
    )
    rows = {str(row.subject): row for row in records()}

    class Encoder:
        """Stands in for the embedding model: the record's own vector."""

        config = memory.embedding_model.config

        def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
            return [float(x) for x in rows[text].key]

        def embed_batch(self, texts: Sequence[str], *_: Any, **__: Any) -> list[list[float]]:
            return [self.embed(text) for text in texts]

    memory.embedding_model = Encoder()
    if step == "write":
        for text, row in rows.items():
            memory.add(text, user_id="study", metadata={"record": row.id}, infer=False)
        return True
    held = memory.get_all(filters={"user_id": "study"}, top_k=2 * RECORDS)["results"]
    gone = {row.id for row in records()[:GONE]}
    for one in held:
        if one["metadata"]["record"] in gone:
            memory.delete(one["id"])
    assert_count(len(memory.get_all(filters={"user_id": "study"}, top_k=2 * RECORDS)["results"]))
    return True


def assert_count(left: int) -> None:
    """The peer must have deleted what it was told to, or the comparison would be unfair."""
    if left != RECORDS - GONE:
        raise RuntimeError(f"{left} records are left instead of {RECORDS - GONE}")


System = Callable[[str, Path], bool]
OURS: dict[str, System] = {"svmemory file": svmemory_file, "svmemory store": svmemory_store}
PEERS: dict[str, tuple[str, str, System]] = {  # module, distribution
    "chromadb": ("chromadb", "chromadb", chromadb),
    "sqlite-vec": ("sqlite_vec", "sqlite-vec", sqlite_vec),
    "mem0": ("mem0", "mem0ai", mem0),
}


# -- the comparison -----------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if nothing of ours was found after deletion."""
    parser = arguments(__doc__)
    parser.add_argument("--child", nargs=3, metavar=("SYSTEM", "STEP", "FOLDER"))
    args = parser.parse_args(argv)
    if args.child:
        name, step, folder = args.child
        system = OURS.get(name) or PEERS[name][2]
        return 0 if system(step, Path(folder)) else 4
    found = {name: _version(where) for name, (_, where, _) in PEERS.items()}
    settings = {"records": RECORDS, "deleted": GONE, "d": DIMENSION, **found}
    report = Report("byte scan", args.quick, args.seed, settings)
    lines: list[list[str | int | None]] = []
    for name in [*OURS, *PEERS]:
        if name in PEERS and importlib.util.find_spec(PEERS[name][0]) is None:
            report.notes.append(f"{name} is not installed: left out")
            continue
        for step, outcome in run(name, report):
            numbers, texts = rows_found(outcome, "key"), rows_found(outcome, "id", "subject")
            seen = outcome.control is not None and outcome.control.shown
            vector = numbers if seen else None  # it is kept in a form that a byte scan cannot see
            lines.append([name, step, vector, texts, "yes" if seen else "no", outcome.files])
            if step == "write":
                there = GONE in (numbers, texts) if name in PEERS else numbers == texts == GONE
                report.check(f"{name}: all there before", there)
            elif name in OURS:
                gone = outcome.verdict == "absent"
                report.check(f"{name}: absent after deletion, control seen", gone)
    report.table(
        f"rows of the {GONE} deleted ones found in the files",
        ["system", "after", "vector", "id or text", "control seen", "files"],
        lines,
    )
    speed(report, 8 if args.quick else 256)
    return report.finish(args.json)


def speed(report: Report, megabytes: int) -> None:
    """How long one scan takes, beside three live rows as a control."""
    rows, folder = records(), Path(tempfile.mkdtemp(prefix="byte-scan-"))
    try:
        block = np.random.default_rng(SEED).bytes(1 << 20)
        with (folder / "large").open("wb") as stream:
            for _ in range(megabytes):
                stream.write(block)
        scan(folder, rows[:1])  # compiles, and has the file in memory
        seconds, outcome = timed(lambda: scan(folder, rows[:GONE], rows[GONE:]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.table(
        "one scan of a large file",
        ["MB", "needles", "seconds", "MB a second"],
        [[megabytes, outcome.needles, seconds, megabytes / seconds]],
    )


def run(name: str, report: Report) -> list[tuple[str, ScanReport]]:
    """Scans of a system's folder after each step."""
    rows = records()
    folder = Path(tempfile.mkdtemp(prefix="byte-scan-"))
    outcomes = []
    try:
        for step in STEPS if name in PEERS else STEPS[:2]:  # ours need no compacting
            command = [sys.executable, __file__, "--child", name, step, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=250)
            if done.returncode == 4:  # no such step
                continue
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                report.notes.append(f"{name}: {step} failed: {last}")
                report.check(f"{name}: {step}", name not in OURS, last)
                break
            outcomes.append((step, scan(folder, rows[:GONE], rows[GONE:])))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcomes


def rows_found(outcome: ScanReport, *parts: str) -> int:
    """How many rows were found by one of these parts."""
    return len({row for one in outcome.found if one.part in parts for row in one.rows})


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
