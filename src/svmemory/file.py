"""Memory files: one safetensors file whose bytes are a function of the rows it holds.

Rows are written in id order, so two memories with the same rows, contract and header write the same
bytes. A file holds nothing of rows that are gone, no counters and no times. Loading checks the
format, the digest and the optimality of the weights before it returns anything
(:meth:`svmemory.memory.SupportVectorMemory.load`).
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from .contract import KERNEL_VERSION, Contract
from .digest import Rows, canonical_json, contract_fields
from .errors import FileFormatError, InputError, SVMemoryError

FORMAT = 1
_KEY = "svmemory"


@dataclass(frozen=True)
class Content:
    """What a file holds.

    Attributes
    ----------
    contract : Contract
    rows : Rows or None
        None for a memory without rows.
    digest : str or None
        None at ridge 0.
    header : dict
        The user's own notes, JSON.
    """

    contract: Contract
    rows: Rows | None
    digest: str | None
    header: dict[str, Any]


def read(path: str | os.PathLike[str]) -> Content:
    """Content of the file at ``path``; FileFormatError if it is no memory or is damaged."""
    data = Path(path).read_bytes()
    try:
        return from_bytes(data)
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from None


def write(data: bytes, path: str | os.PathLike[str]) -> None:
    """Replace the file at ``path`` in one step."""
    target = Path(os.path.realpath(path))  # through a link, not over it
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def to_bytes(content: Content) -> bytes:
    """The file's bytes, a function of the content."""
    rows = content.rows
    about: dict[str, Any] = {
        "format": FORMAT,
        "contract": contract_fields(content.contract),
        "digest": content.digest,
        "header": content.header,
        "mu": (0.0).hex() if rows is None else rows.mu.hex(),
        "rows": 0 if rows is None else len(rows.ids),
    }
    tensors: dict[str, NDArray[Any]] = {}
    if rows is not None:
        tensors = {
            "keys": rows.keys,
            "values": rows.values,
            "masses": rows.b,
            **_pack("ids", rows.ids),
            **_pack("subjects", [s or "" for s in rows.subjects]),
        }
    _require_text_keys(content.header)
    try:
        text = canonical_json(about).decode()
    except (TypeError, ValueError) as error:
        raise InputError(f"the header cannot be written as JSON: {error}") from None
    # One metadata entry only: the writer does not fix the order of several.
    return bytes(write_tensors(tensors, {_KEY: text}))


def _require_text_keys(document: Any) -> None:
    """JSON would write a key that is no string as one that is, and a reader would find another."""
    if isinstance(document, dict):
        for key, value in document.items():
            if not isinstance(key, str):
                raise InputError(f"header keys must be strings, got {key!r}")
            _require_text_keys(value)
    elif isinstance(document, list | tuple):
        for value in document:
            _require_text_keys(value)


def _pack(name: str, items: list[str]) -> dict[str, NDArray[Any]]:
    data = [item.encode() for item in items]
    ends = np.cumsum([len(part) for part in data], dtype=np.int64)
    return {name: np.frombuffer(b"".join(data), np.uint8), f"{name}.ends": ends}


def _unpack(name: str, tensors: dict[str, NDArray[Any]]) -> list[str]:
    ends = tensors[f"{name}.ends"].tolist()
    data = tensors[name].tobytes()
    starts = [0, *ends[:-1]]
    if any(b < a for a, b in zip(starts, ends, strict=True)) or (ends and ends[-1] != len(data)):
        raise FileFormatError(f"{name} are cut at impossible places")
    try:
        return [data[a:b].decode() for a, b in zip(starts, ends, strict=True)]
    except UnicodeDecodeError:
        raise FileFormatError(f"{name} are not UTF-8 text") from None


def from_bytes(data: bytes) -> Content:
    """The content of a file's bytes, its form checked but not its optimality."""
    about = _metadata(data)
    try:
        tensors = read_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise FileFormatError(f"damaged or not a memory file ({error})") from None
    contract = _contract(about)
    seal = None if contract.ridge == 0 else _field(about, "digest", str)
    header = _field(about, "header", dict)
    n = _field(about, "rows", int)
    if n == 0:
        if tensors:
            raise FileFormatError("it claims no rows but holds some")
        return Content(contract, None, seal, header)
    return Content(contract, _rows(tensors, n, _real(about, "mu")), seal, header)


def _metadata(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise FileFormatError("damaged or not a memory file (too short)")
    try:
        head = json.loads(data[8 : 8 + size])
        about = json.loads(head["__metadata__"][_KEY])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileFormatError("damaged or not a memory file (no readable header)") from None
    if not isinstance(about, dict):
        raise FileFormatError("damaged header")
    if about.get("format") != FORMAT:
        raise FileFormatError(
            f"format {about.get('format')!r} is unknown; this version reads {FORMAT}"
        )
    return about


def _field(about: dict[str, Any], name: str, kind: type) -> Any:
    value = about.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FileFormatError(f"header field {name!r} is missing or of the wrong type")
    return value


def _real(fields: dict[str, Any], name: str) -> float:
    try:
        value = float.fromhex(_field(fields, name, str))
    except (ValueError, OverflowError):
        raise FileFormatError(f"header field {name!r} is not a hexadecimal float") from None
    if not math.isfinite(value):
        raise FileFormatError(f"header field {name!r} is not finite")
    return value


def _contract(about: dict[str, Any]) -> Contract:
    fields = _field(about, "contract", dict)
    if fields.get("kernel") != KERNEL_VERSION:
        raise FileFormatError(
            f"kernel {fields.get('kernel')!r} is unknown; this is {KERNEL_VERSION!r}"
        )
    try:
        contract = Contract(_real(fields, "gamma"), _real(fields, "mass"), _real(fields, "ridge"))
    except SVMemoryError as error:
        raise FileFormatError(str(error)) from None
    if contract_fields(contract) != fields:
        raise FileFormatError("the contract's numbers are not on their grids")
    return contract


def _rows(tensors: dict[str, NDArray[Any]], n: int, mu: float) -> Rows:
    shapes = {"keys": 2, "values": 2, "masses": 1, "ids.ends": 1, "subjects.ends": 1}
    expected = {*shapes, "ids", "subjects"}
    if set(tensors) != expected:
        raise FileFormatError(f"tensors {sorted(tensors)} instead of {sorted(expected)}")
    for name, rank in shapes.items():
        array = tensors[name]
        kind = np.int64 if name.endswith(".ends") else np.float64
        if array.dtype != kind or array.ndim != rank or len(array) != n:
            raise FileFormatError(f"tensor {name!r} has shape {array.shape} and type {array.dtype}")
    for name in ("ids", "subjects"):
        if tensors[name].dtype != np.uint8 or tensors[name].ndim != 1:
            raise FileFormatError(f"tensor {name!r} has shape {tensors[name].shape}")
    ids = _unpack("ids", tensors)
    subjects = [text or None for text in _unpack("subjects", tensors)]
    if any(a >= b for a, b in pairwise(ids)):
        raise FileFormatError("ids are not unique and sorted")
    return Rows(ids, list(subjects), tensors["keys"], tensors["values"], tensors["masses"], mu)
