"""Compiled code older than any source file is not trusted."""

from __future__ import annotations

import os

from svmemory.stale import anything_compiled, drop_stale


def test_only_compiled_code_older_than_the_newest_source_goes(tmp_path):
    cache = tmp_path / "engine" / "__pycache__"
    cache.mkdir(parents=True)
    for name, age in {
        "kernel.py": 100,
        "engine/b.py": 200,
        "memory.py": 300,
        "engine/__pycache__/b.f-1.py311.nbi": 150,
        "engine/__pycache__/b.f-1.py311.1.nbc": 150,
        "engine/__pycache__/b.g-1.py311.nbi": 250,
        "engine/__pycache__/b.cpython-311.pyc": 150,
    }.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (age, age))
    assert drop_stale(tmp_path) == 2
    assert sorted(p.name for p in cache.iterdir()) == ["b.cpython-311.pyc", "b.g-1.py311.nbi"]


def test_a_package_without_compiled_code_is_recognised(tmp_path):
    cache = tmp_path / "engine" / "__pycache__"
    cache.mkdir(parents=True)
    (cache / "operate.cpython-311.pyc").write_text("")
    assert not anything_compiled(tmp_path)
    (cache / "operate.insert_rows-1.py311.1.nbc").write_text("")
    assert anything_compiled(tmp_path)
