"""What follows a committed deletion: bytes leave the files, and keys their vault.

Both are noted in the transaction that deletes, and done after it. What a crash leaves undone is
done when the store is opened again.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from ..errors import StoreError
from . import records, schema
from .database import Database, Waiting
from .results import Receipt
from .vault import Vault, batches


def count_erasure(connection: Connection) -> None:
    """Note that rows were deleted, so that a purge is due."""
    facts = schema.facts
    connection.execute(
        update(facts).where(facts.c.name == "erasures").values(number=facts.c.number + 1)
    )


def purge(database: Database, waiting: Waiting | None = None) -> str | None:
    """Take deleted bytes out of the files if that is due; why it could not be done, or None."""
    facts = schema.facts
    with database.reading() as connection:
        number = {line.name: line.number for line in connection.execute(select(facts))}
    if not all(isinstance(number.get(name), int) for name in ("purged", "erasures")):
        raise StoreError(f"{database.name}: this store is damaged: its counters are no numbers")
    if number["purged"] >= number["erasures"]:
        return None
    if (why := database.purge(waiting)) is not None:
        return f"pending: {why}"
    with database.writing() as connection:
        connection.execute(
            update(facts)
            .where(facts.c.name == "purged", facts.c.number < number["erasures"])
            .values(number=number["erasures"])
        )
    return None


def shred(database: Database, vault: Vault, memory: int) -> Receipt | None:
    """Destroy the keys of a memory's deleted rows; the receipt, or None if none is due.

    Raises
    ------
    StoreError
        If the keys are in another vault: they are still due.
    """
    due = schema.shreds
    with database.reading() as connection:
        query = select(due.c.vault_key).where(due.c.memory == memory)
        names = [bytes(name) for name in connection.scalars(query)]
        owner = connection.scalar(
            select(schema.memories.c.vault).where(schema.memories.c.memory == memory)
        )
    if not names:
        return None
    if owner is not None and bytes(owner) != vault.token:
        raise StoreError(f"{vault.database.name} is another vault, without these keys")
    vault.destroy(names)
    left = vault.purge()
    with database.writing() as connection:
        for batch in batches(names):
            connection.execute(
                delete(due).where(due.c.memory == memory, due.c.vault_key.in_(batch))
            )
        name = connection.scalar(
            select(schema.memories.c.name).where(schema.memories.c.memory == memory)
        )
        keys = "1 key" if len(names) == 1 else f"{len(names)} keys"
        receipt = Receipt(
            "shredded",
            str(name),
            records.next_receipt(connection, memory),
            records.now(),
            f"{keys} destroyed: deleted rows in copies of the store cannot be read any more, unless"
            " somebody copied the vault",
            purged=left or "done",
        )
        records.keep_receipt(connection, memory, receipt)
    return receipt


def finish_shreds(database: Database, vault: Vault | None) -> None:
    """Destroy the keys that a crash has left over; those in another vault have to wait."""
    if vault is None:
        return
    with database.reading() as connection:
        query = (
            select(schema.shreds.c.memory, schema.memories.c.vault)
            .join(schema.memories, schema.memories.c.memory == schema.shreds.c.memory)
            .distinct()
        )
        due = connection.execute(query).all()
    for memory, owner in due:
        if owner is None or bytes(owner) == vault.token:
            shred(database, vault, memory)


def unshredded(database: Database, memory: int) -> bool:
    """Whether keys of a memory's deleted rows have still to be destroyed."""
    query = select(schema.shreds.c.memory).where(schema.shreds.c.memory == memory).limit(1)
    with database.reading() as connection:
        return connection.scalar(query) is not None
