"""Encryption at rest: what is in the files, and what a backup is worth after a deletion."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from stores import CONTRACT, found, never_saw, people
from svmemory.errors import InputError, StoreError
from svmemory.store import Store, Vault


def opened(folder: Path) -> Store:
    return Store(folder / "store.db", vault=folder / "keys.db")


def test_an_encrypted_memory_is_the_same_memory(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        memory = store.create("m", CONTRACT, encrypted=True)
        memory.add(**people(range(0, 30)))
        memory.add(**people(range(30, 60)))
        memory.forget(subject="person-002")
        expected = never_saw([i for i in range(60) if i // 3 != 2])
        assert memory.digest() == expected
    with opened(tmp_path) as store:
        memory = store.open("m")
        assert memory.encrypted
        assert memory.digest() == expected


def test_no_row_is_readable_in_the_files(tmp_path: Path) -> None:
    rows = people(range(30))
    wanted = [x.tobytes() for x in np.asarray(rows["keys"])]
    wanted += [str(x).encode() for x in [*rows["ids"], *rows["subjects"]]]  # type: ignore[misc]
    with opened(tmp_path) as store:
        store.create("plain", CONTRACT).add(**rows)
        assert found(tmp_path, wanted) > 0
        store.drop("plain")
        store.create("m", CONTRACT, encrypted=True).add(**rows)
        assert found(tmp_path, wanted) == 0
    assert found(tmp_path, wanted) == 0


def test_a_backup_cannot_be_read_for_who_was_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        memory = store.create("m", CONTRACT, encrypted=True)
        memory.add(**people(range(60)))
    shutil.copy(tmp_path / "store.db", tmp_path / "backup.db")
    with Store(tmp_path / "backup.db", vault=tmp_path / "keys.db") as backup:
        assert len(backup.open("m")) == 60  # it is a good backup
    with opened(tmp_path) as store:
        receipt = store.open("m").forget(subject="person-004")
        assert receipt.shredded is not None
        assert receipt.shredded.kind == "shredded"
        assert receipt.shredded.message.startswith("1 key destroyed")
        kinds = [kept["kind"] for kept in store.open("m").receipts()]
        assert kinds == ["forgotten", "shredded"]
    with Store(tmp_path / "backup.db", vault=tmp_path / "keys.db") as backup:
        with pytest.raises(StoreError, match="its key was destroyed"):
            backup.open("m")
        restored = backup.open("m", solve=True)
        assert restored.digest() == never_saw([i for i in range(60) if i // 3 != 4])


def test_other_rows_of_the_subject_get_another_key(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.create("m", CONTRACT, encrypted=True).add(**people(range(60)))
    shutil.copy(tmp_path / "store.db", tmp_path / "backup.db")
    with opened(tmp_path) as store:
        memory = store.open("m")
        memory.forget(ids="row-0012")  # person-004 has two more
        memory.add(**people(range(60, 61)) | {"subjects": ["person-004"]})
        expected = never_saw([i for i in range(60) if i != 12])
    with opened(tmp_path) as store:
        memory = store.open("m")
        assert memory.forget(ids="row-0060").shredded is not None
        assert memory.digest() == expected
    with Store(tmp_path / "backup.db", vault=tmp_path / "keys.db") as backup:
        restored = backup.open("m", solve=True)
        assert "row-0012" not in restored
        assert "row-0013" not in restored  # readable in the live store only


def test_rows_without_a_subject_have_keys_of_their_own(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        memory = store.create("m", CONTRACT, encrypted=True)
        memory.add(np.eye(4), ids=["a", "b", "c", "d"])
        assert keys_in(store) == 4
        receipt = memory.forget(ids=["a", "b"])
        assert receipt.shredded is not None
        assert receipt.shredded.message.startswith("2 keys destroyed")
        assert keys_in(store) == 2
        store.drop("m")
        assert keys_in(store) == 0


def test_no_bytes_of_a_destroyed_key_are_left(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    with Store(tmp_path / "store.db", vault=tmp_path / "vault" / "keys.db") as store:
        memory = store.create("m", CONTRACT, encrypted=True)
        memory.add(**people(range(60)))
        assert store.vault is not None
        with store.vault.database.reading() as connection:
            secrets = list(map(bytes, connection.scalars(text("SELECT secret FROM svm_keys"))))
        assert found(tmp_path / "vault", secrets) >= 20
        memory.forget(ids=memory.ids)
        assert found(tmp_path / "vault", secrets) == 0
    assert found(tmp_path, secrets) == 0


def test_a_crash_before_the_keys_are_destroyed_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        memory = store.create("m", CONTRACT, encrypted=True)
        memory.add(**people(range(9)))

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Vault, "destroy", crash)
            with pytest.raises(KeyboardInterrupt):
                memory.forget(subject="person-001")
        assert keys_in(store) == 3
    with opened(tmp_path) as store:
        assert keys_in(store) == 2
        assert store.open("m").receipts()[-1]["kind"] == "shredded"


def test_without_its_vault_nothing_is_opened(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.create("m", CONTRACT, encrypted=True).add(**people(range(9)))
        store.create("plain", CONTRACT).add(**people(range(9)))
    with Store(tmp_path / "store.db") as store:
        with pytest.raises(StoreError, match="is encrypted; open the store with vault="):
            store.open("m")
        assert len(store.open("plain")) == 9
        with pytest.raises(InputError, match="needs a vault"):
            store.create("other", CONTRACT, encrypted=True)
    with (
        Store(tmp_path / "store.db", vault=tmp_path / "other.db") as store,
        pytest.raises(StoreError, match=r"other\.db is another vault: it is not the one with"),
    ):
        store.open("m")
    with (
        Store(tmp_path / "store.db", vault=tmp_path / "other.db") as store,
        pytest.raises(StoreError, match=r"other\.db is another vault"),
    ):
        store.open("m", solve=True)
    with opened(tmp_path) as store:
        assert len(store.open("m")) == 9
    with pytest.raises(InputError, match="another database than the store"):
        Store(tmp_path / "store.db", vault=tmp_path / "store.db")


def test_a_copied_vault_is_the_same_vault(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.create("m", CONTRACT, encrypted=True).add(**people(range(9)))
    shutil.copy(tmp_path / "keys.db", tmp_path / "moved.db")
    with Store(tmp_path / "store.db", vault=tmp_path / "moved.db") as store:
        assert store.open("m").digest() == never_saw(range(9))


def test_a_store_is_no_vault_and_a_vault_no_store(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.create("m", CONTRACT, encrypted=True).add(**people(range(9)))
    with Store(tmp_path / "plain.db") as store:
        store.create("m", CONTRACT).add(**people(range(9)))
    (tmp_path / "plain.db").chmod(0o644)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="a store, not a vault"):
        Store(tmp_path / "store.db", vault=tmp_path / "plain.db")
    with pytest.raises(InputError, match="a store, not a vault"):
        Store(tmp_path / "new.db", vault=tmp_path / "plain.db")
    with pytest.raises(StoreError, match="a database, but no store: it has the table 'svm_keys'"):
        Store(tmp_path / "keys.db")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert stat.S_IMODE((tmp_path / "plain.db").stat().st_mode) == 0o644
    with pytest.raises(StoreError, match=r"none\.db: no such vault"):
        Store(tmp_path / "store.db", vault=tmp_path / "none.db", create=False)


def test_keys_that_another_vault_has_stay_due(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.create("m", CONTRACT, encrypted=True).add(**people(range(9)))
    with Store(tmp_path / "store.db") as store:
        receipt = store.drop("m")
        assert receipt.purged == "pending: keys are not destroyed: open the store with vault="
        assert receipt.pending
    with Store(tmp_path / "store.db", vault=tmp_path / "other.db"):
        pass
    with Vault(tmp_path / "keys.db").database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM svm_keys")) == 3
    with opened(tmp_path) as store:
        assert keys_in(store) == 0
        assert [kept["kind"] for kept in store.dropped("m")[0].receipts] == ["dropped", "shredded"]


def test_a_changed_or_moved_row_is_noticed(tmp_path: Path) -> None:
    for change in (
        "UPDATE svm_rows SET key = (SELECT key FROM svm_rows WHERE row = 1) WHERE row = 0",
        "UPDATE svm_rows SET key = CAST(substr(key, 1, 40) || x'00' AS BLOB) WHERE row = 0",
        "UPDATE svm_rows SET key = x'00' WHERE row = 0",
    ):
        folder = tmp_path / str(abs(hash(change)))
        folder.mkdir()
        with opened(folder) as store:
            store.create("m", CONTRACT, encrypted=True).add(**people(range(9)))
            with store.database.writing() as connection:
                connection.execute(text(change))
        with opened(folder) as store, pytest.raises(StoreError, match="changed or moved"):
            store.open("m")


def test_only_the_owner_reads_a_vault(tmp_path: Path) -> None:
    with opened(tmp_path):
        for path in tmp_path.glob("keys.db*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def keys_in(store: Store) -> int:
    assert store.vault is not None
    with store.vault.database.reading() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM svm_keys")))
