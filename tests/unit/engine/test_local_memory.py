"""How much memory a process may still use."""

from __future__ import annotations

from pathlib import Path

from envbuild.engine.local.memory import free_memory


def write(root: Path, files: dict[str, str]) -> Path:
    """Make the files that a kernel shows."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_smallest_of_machine_and_groups_counts(tmp_path: Path) -> None:
    """A group's limit, and that of any group above it, in both versions of control groups."""
    root = write(tmp_path, {"proc/meminfo": "MemTotal: 16 kB\nMemAvailable: 8 kB\n", "proc/self/cgroup": "0::/a/b\n"})
    assert free_memory(root) == 8192
    groups = root / "sys/fs/cgroup"
    write(groups, {"a/b/memory.max": "max\n", "a/b/memory.current": "5\n"})
    assert free_memory(root) == 8192
    write(groups, {"a/memory.max": "5000\n", "a/memory.current": "1000\n"})
    assert free_memory(root) == 4000
    write(groups, {"memory.max": "3000\n", "memory.current": "3001\n"})
    assert free_memory(root) == 0
    write(root, {"proc/self/cgroup": "2:cpu,memory:/job\n1:pids:/\n"})
    write(groups, {"memory/job/memory.limit_in_bytes": "700\n", "memory/job/memory.usage_in_bytes": "100\n"})
    assert free_memory(root) == 600


def test_what_a_machine_does_not_report_counts_as_none(tmp_path: Path) -> None:
    """Without a table there is no memory to spare."""
    assert free_memory(tmp_path) == 0
