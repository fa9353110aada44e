"""What follows a committed deletion: bytes leave the files, and keys their vault.

Both are noted in the transaction that deletes, and done after it. What a crash leaves undone is
done when the store is opened again.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from . import records, schema
from .database import Database
from .results import Receipt
from .vault import Vault, batches


def count_erasure(connection: Connection) -> None:
    """Note that rows were deleted, so that a purge is due."""
    facts = schema.facts
    connection.execute(
        update(facts).where(facts.c.name == "erasures").values(number=facts.c.number + 1)
    )


def purge(database: Database) -> str | None:
    """Take deleted bytes out of the files if that is due; why it could not be done, or None."""
    facts = schema.facts
    with database.reading() as connection:
        number = {line.name: line.number for line in connection.execute(select(facts))}
    if number["purged"] >= number["erasures"]:
        return None
    if (why := database.purge()) is not None:
        return f"pending: {why}"
    with database.writing() as connection:
        connection.execute(
            update(facts)
            .where(facts.c.name == "purged", facts.c.number < number["erasures"])
            .values(number=number["erasures"])
        )
    return None


def shred(database: Database, vault: Vault, memory: int) -> Receipt | None:
    """Destroy the keys of a memory's deleted rows; the receipt, or None if none is due."""
    due = schema.shreds
    with database.reading() as connection:
        query = select(due.c.vault_key).where(due.c.memory == memory)
        names = [bytes(name) for name in connection.scalars(query)]
    if not names:
        return None
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
    """Destroy the keys that a crash has left over."""
    if vault is None:
        return
    with database.reading() as connection:
        waiting = connection.scalars(select(schema.shreds.c.memory).distinct()).all()
    for memory in waiting:
        shred(database, vault, memory)
