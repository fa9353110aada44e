"""What the tests of the store share: data, a byte search, and servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine

from svmemory import Contract, SupportVectorMemory
from svmemory.store import schema

CONTRACT = Contract.from_nu(0.3, 60, gamma=0.4)


def people(rows: range) -> dict[str, object]:
    """Arguments of ``add``: 4-d keys, 2 values, ids ``row-0007``, three rows a subject."""
    keys = np.array([np.random.default_rng(i).normal(size=4) for i in rows]).reshape(-1, 4)
    return {
        "keys": keys,
        "values": np.array([[i, -0.5 * i] for i in rows], float).reshape(-1, 2),
        "ids": [f"row-{i:04d}" for i in rows],
        "subjects": [f"person-{i // 3:03d}" for i in rows],
    }


def never_saw(rows: object) -> str:
    """Digest of a plain memory that only ever saw these rows."""
    memory = SupportVectorMemory.from_contract(CONTRACT)
    for i in rows:  # type: ignore[attr-defined]
        memory.add(**people(range(i, i + 1)))  # type: ignore[arg-type]
    return memory.digest()


def needles(key: np.ndarray) -> list[bytes]:
    """A key's bytes as float16, 32 and 64, both endiannesses: whole rows of at least 8 bytes."""
    with np.errstate(over="ignore"):
        kinds = [key.astype(order + kind) for order in "<>" for kind in ("f2", "f4", "f8")]
    return [x.tobytes() for x in kinds if x.nbytes >= 8]


def found(folder: Path, wanted: list[bytes]) -> int:
    """Occurrences of any of the needles in any file below a folder."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            total += sum(data.count(needle) for needle in wanted)
    return total


def _binaries() -> Path | None:
    """Folder of PostgreSQL's programs."""
    listed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    for folder in [*candidates, *listed]:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    return None


class Server:
    """A PostgreSQL server of the tests' own."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Not in pytest's folder: that is for one user, and the server must be another than root.
        self.folder = Path(tempfile.mkdtemp(prefix="svmemory-postgres-"))
        self.data = self.folder / "data"
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", self.data, "-U", "tester", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        self._run(
            "pg_ctl", "-D", self.data, "-o", options, "-w", "-l", self.folder / "log", "start"
        )
        self.url = f"postgresql+psycopg://tester@/postgres?host={self.folder}"

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        subprocess.run(
            command,
            check=True,
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=60,
        )


def wipe(url: str) -> None:
    """Drop the tables of a store in a database."""
    engine = create_engine(url)
    with engine.begin() as connection:
        schema.metadata.drop_all(connection)
    engine.dispose()


def postgres() -> Iterator[tuple[str, Path | None]]:
    """URL of a server, and the folder of its files if they can be looked at; or skip."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install 'svmemory[postgres]'")
    if url := os.environ.get("SVMEMORY_TEST_POSTGRES"):
        wipe(url)
        yield url, None
        return
    programs = _binaries()
    if programs is None:
        pytest.skip(
            "no PostgreSQL: set SVMEMORY_TEST_POSTGRES to a URL, or install it (CONTRIBUTING.md)"
        )
    try:
        server = Server(programs)
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        output = getattr(error, "stderr", None) or b""
        pytest.skip(f"PostgreSQL does not start: {error} {output.decode(errors='replace')[-300:]}")
    try:
        yield server.url, server.data
    finally:
        server.stop()
