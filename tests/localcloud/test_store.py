"""The store: what was saved is found again, all of it or nothing."""

import sqlite3

import pytest

from tpuops.localcloud.store import Store


def test_documents_and_bytes_are_found_again(tmp_path):
    store = Store(tmp_path / "cloud.sqlite")
    store.world.put("storage.object", "b/o", {"content": store.world.keep(b"bytes")})
    store.world.put("a", "gone", {})
    store.world.drop("a", "gone")
    store.close()
    again = Store(tmp_path / "cloud.sqlite")
    found = again.world.get("storage.object", "b/o")
    assert again.world.content(found["content"]) == b"bytes"
    assert again.world.get("a", "gone") is None
    again.world.drop("storage.object", "b/o")
    again.close()
    rows = sqlite3.connect(tmp_path / "cloud.sqlite").execute("SELECT count(*) FROM contents").fetchone()
    assert rows == (0,)


def test_what_a_full_disk_refused_is_saved_when_there_is_room(tmp_path):
    store = Store(tmp_path / "cloud.sqlite")
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    store.world.put("storage.object", "b/o", {"content": store.world.keep(b"x" * 100_000)})
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.save()
    store._database.execute("PRAGMA max_page_count = 100000")
    store.world.put("a", "later", {})
    store.close()
    again = Store(tmp_path / "cloud.sqlite")
    assert again.world.content(again.world.get("storage.object", "b/o")["content"]) == b"x" * 100_000
    assert again.world.get("a", "later") == {}
    again.close()
