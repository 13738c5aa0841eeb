"""Results outside the project: what is found there, what is left out as no result, and what is reported of the rest."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from envbuild.engine import overlay as layer
from envbuild.engine.local.gpus import Handed
from envbuild.engine.local.program import EndedProgram
from envbuild.engine.protocol import FileChange, Mount, OwnFiles
from envbuild.errors import EngineError
from envbuild.lockfile import layout
from envbuild.record.model import dumps
from envbuild.record.processes import json_table
from envbuild.runs import outside
from envbuild.runs.outside import Outside, name_mounted
from envbuild.runs.tools_files import is_noise, notes_on
from envbuild.runtime.hook import memory
from tests.support.records import record
from tests.support.rights import without_rights


class Files:
    """A container's own layer: contents by path, None for a folder; a text after ``->`` is a link's target."""

    def __init__(self, contents: Mapping[str, bytes | None], changed: tuple[str, ...] = ("/tmp",)) -> None:
        self.contents, self.changed = contents, changed
        self.asked: list[str] = []

    def changes(self) -> Mapping[str, FileChange]:
        return {path: "changed" if path in self.changed else "created" for path in (*self.changed, *self.contents)}

    @contextmanager
    def archive(self, path: str) -> Iterator[BinaryIO]:
        self.asked.append(path)
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name, content in sorted({**dict.fromkeys(self.changed), **self.contents}.items()):
                if name != path and not name.startswith(f"{path}/"):
                    continue
                member = tarfile.TarInfo(name[len(path.rpartition("/")[0]) + 1 :])
                if content is None:
                    member.type = tarfile.DIRTYPE
                elif content.startswith(b"->"):
                    member.type, member.linkname = tarfile.SYMTYPE, content[2:].decode()
                else:
                    member.size = len(content)
                archive.addfile(member, io.BytesIO(content or b""))
        data.seek(0)
        yield data


def found(own: Files, folder: Path, wanted: tuple[str, ...] = ()) -> dict[str, tuple[str, int, str | None]]:
    """What is found in a container's own layer."""
    around = Outside(mounts=(), wanted=wanted, kept=folder, targets=("/workspace", "/run/envbuild"))
    around.look_first()
    around.look_inside(own)
    listed, left_out = around.look_last({})
    assert left_out == ()
    return {each.path: (each.change, each.size, each.sha256) for each in listed}


def sha(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def test_permissions_of_files_of_the_container_are_known(tmp_path: Path) -> None:
    """As those of the project's files are."""
    around = Outside(mounts=(), wanted=(), kept=tmp_path, targets=("/workspace",))
    around.look_first()
    around.look_inside(Files({"/opt/model.bin": b"model"}))
    ((each,), _) = around.look_last({})
    assert each.mode == "644"


def test_figures_that_were_shown_are_kept(tmp_path: Path) -> None:
    """They count as any file does; that there are none is worth no sentence."""
    own = Files({"/tmp/shown-figures": None, "/tmp/shown-figures/1.png": b"png", "/tmp/w.npy": b"w"}, changed=("/tmp",))
    for files, kept in ((Files({}), []), (own, [Path("tmp/shown-figures/1.png")])):
        around = Outside(mounts=(), wanted=(), kept=tmp_path, targets=("/workspace",), shown=layout.SHOWN_DIR)
        around.look_first()
        around.look_inside(files)
        listed, left_out = around.look_last({})
        assert left_out == ()
        assert [each.relative_to(tmp_path) for each in tmp_path.rglob("*") if each.is_file()] == kept
    assert [each.path for each in listed] == ["/tmp/shown-figures/1.png", "/tmp/w.npy"]


def test_files_of_the_container_are_digested(tmp_path: Path) -> None:
    """New and changed files and links, wherever they are; a new folder is read once, the project is not read."""
    own = Files(
        {
            "/tmp/results": None,
            "/tmp/results/w.npy": b"weights",
            "/tmp/results/deep": None,
            "/tmp/results/deep/x": b"",
            "/tmp/last": b"->results/w.npy",
            "/opt/model.bin": b"model",
            "/etc/passwd": b"changed",
            "/workspace": None,
        },
        changed=("/tmp", "/opt", "/etc", "/etc/passwd"),
    )
    assert found(own, tmp_path) == {
        "/tmp/results/w.npy": ("created", 7, sha(b"weights")),
        "/tmp/results/deep/x": ("created", 0, sha(b"")),
        "/tmp/last": ("created", 0, sha(b"results/w.npy")),
        "/opt/model.bin": ("created", 5, sha(b"model")),
        "/etc/passwd": ("changed", 7, sha(b"changed")),
    }
    assert sorted(own.asked) == ["/etc/passwd", "/opt/model.bin", "/tmp/last", "/tmp/results"]


def test_many_files_are_read_at_once_and_folders_of_the_image_are_not(tmp_path: Path) -> None:
    """A hundred files in /tmp are one call; a folder of the image in which a file came and went is left at once."""
    many = Files({f"/tmp/{number}.npy": bytes([number]) for number in range(100)})
    assert len(found(many, tmp_path)) == 100
    assert many.asked == ["/tmp"]
    usr = Files({}, changed=("/usr/lib",))
    assert found(usr, tmp_path) == {}


@pytest.mark.parametrize(
    "path",
    [
        "/run/lock/x", "/var/run/secrets/x", "/dev/null", "/etc/hosts", "/var/cache/fontconfig/a",
        "/var/log/apt/history.log", "/etc/ld.so.cache", "/tmp/home",
        "/tmp/home/.cache/huggingface/a", "/tmp/home/.config/matplotlib/m",
        "/usr/lib/python3/dist-packages/x/__pycache__/a.cpython-311.pyc", "/tmp/torchinductor_envbuild/ab/c.py",
        "/tmp/.ses", "/tmp/mat-debug-17.log", "/tmp/dask-scratch-space/worker-78w7ci71.dirlock",
        "/tmp/matplotlib-x1y2/fontlist.json", "/tmp/pymp-ab12/x", "/tmp/a.lock", "/dev/shm/psm_1a2b3c",
        "/dev/shm/torch_12_345", "/dev/shm/sem.mp-x", "/tmp/home/.python_history", "/tmp/.X11-unix/X0",
        "/tmp/home/.keras/keras.json", "/dev/shm/nccl-Ab12", "/usr/sbin/docker-init", "/run/podman-init",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libnvidia-ml.so.560.35", "/usr/bin/nvidia-smi",
        "/tmp/home/.prefect/prefect.db", "/tmp/home/.prefect/prefect.db-wal",
        f"/var/tmp/dvc/repo/{'4b' * 16}/hashes/local/cache.db", f"/var/tmp/dvc/repo/{'4b' * 16}/links/cache.db",
        "/tmp/home/.prefect/storage/9f86d081884c4d659a2feaa0c55ad015",
        "/tmp/home/.local/share/jupyter/runtime/kernel-1.json", "/tmp/home/.local/share/applications/mimeapps.list",
        "/tmp/home/.local/lib/python3.11/site-packages/a.py", "/tmp/home/.local/state/less/history",
    ],
)  # fmt: skip
def test_what_tools_leave_is_no_result(path: str) -> None:
    """Caches, locks, histories, shared memory, and what the engine makes."""
    assert is_noise(path)


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/results/w.npy", "/var/tmp/model/w.txt", "/dev/shm/weights.bin", "/tmp/home/w.npy", "/results/w.npy",
        "/opt/out/m.pt", "/tmp/model.pt", "/tmp/tmpab12cd34/w.bin", "/root/w", "/tmp/torch.pt", "/tmp/cache/w.bin",
        "/tmp/rays.npy", "/tmp/nvidia.csv", "/tmp/kernel-size.json", "/opt/lib/libcuda.csv",
        "/tmp/home/storage/3f2a", "/tmp/home/.prefect/storage/best", "/tmp/home/.prefect/storage/a/b",
        "/results/.prefect/storage/3f2a",
        "/results/prefect.db", "/tmp/prefect.db", "/tmp/home/prefect.db",
        f"/var/tmp/dvc/repo/{'4b' * 16}/model.pt", "/var/tmp/dvc/repo/mine/links/cache.db",
        "/var/log/train.log", "/var/cache/w.npy", "/run/result", "/var/run/x",
        "/tmp/home/.local/share/dropfour/openings.json", "/tmp/home/.local/share/pipeline/w.npy",
    ],
)  # fmt: skip
def test_what_programs_leave_is(path: str) -> None:
    """Files of programs' own names count wherever they are."""
    assert not is_noise(path)


def test_results_of_prefect_under_drawn_names_are_said_not_to_be_looked_at(tmp_path: Path) -> None:
    """Once for all of them; one under a name that the program gave counts."""
    folder = "/tmp/home/.prefect/storage"
    names = ("9f86d081884c4d659a2feaa0c55ad015", "1f3870be274f4c49b3e31a0c6728957f", "best")
    files = [{"path": f"{folder}/{name}", "size": 1, "sha256": "0" * 64} for name in names]
    listed, left_out = Outside(mounts=(), wanted=(), kept=tmp_path).look_last({"files": files, "left_out": 0})
    assert [each.path for each in listed] == [f"{folder}/best"]
    assert left_out == (f"{folder}: results that Prefect keeps under drawn names, not looked at",)


@pytest.mark.parametrize(
    ("paths", "notes"),
    [
        (
            ["/tmp/home/.cache/matplotlib/fontlist-v390.json", "/tmp/home/.config/pip", "/tmp/home/.keras/keras.json"],
            [],
        ),
        (
            ["/tmp/home/.prefect/prefect.db-wal", "/tmp/home/.prefect/prefect.db"],
            ["what Prefect's server notes of flows"],
        ),
        (["/tmp/home/.cache/mymodel/w.bin", "/tmp/home/.cache/mymodel/a/b"], ["/tmp/home/.cache/mymodel was taken"]),
        (["/opt/.local/share/mine"], ["/opt/.local/share/mine was taken"]),
        (["/opt/a/__pycache__/a.cpython-311.pyc", "/tmp/n/f.run-12.py311.nbi", "/tmp/n/f.run-12.py311.1.nbc"], []),
        (["/opt/a/__pycache__/weights.bin", "/tmp/w.pyc"], ["/opt/a/__pycache__/weights.bin was", "/tmp/w.pyc was"]),
        (["/tmp/torchinductor_me/ab/c.py", "/dev/shm/torch_1_2", "/tmp/joblib_memmapping_folder_1/a.pkl"], []),
        (
            ["/tmp/torchinductor_me/w.npy", "/dev/shm/torch_1_2.csv"],
            ["/dev/shm/torch_1_2.csv was", "/tmp/torchinductor_me/w.npy was"],
        ),
        (["/root/.bash_history", "/tmp/a.lock"], ["/root/.bash_history was taken for", "/tmp/a.lock was taken for"]),
        (
            [
                "/tmp/home/.cache/torch/hub/checkpoints/resnet18-f37072fd.pth",
                "/tmp/home/.cache/torch/hub/trusted_list",
                "/tmp/home/.cache/huggingface/hub/models--gpt2/refs/main",
                "/tmp/home/.triton/cache/AB/k.cubin",
                "/tmp/home/.keras/models/vgg16_weights_tf_dim_ordering_tf_kernels.h5",
                "/tmp/home/.cache/torch",
                "/tmp/home/.cache/torch/kernels/add_1a2b",
                "/tmp/home/.cache/huggingface/xet/logs/a",
                "/tmp/home/.local/share/jupyter/runtime/kernel-1.json",
                "/tmp/home/.cache/pip/http-v2/a/b/c",
            ],
            [],
        ),
        (
            ["/tmp/home/.cache/torch/w.npy", "/tmp/home/.cache/torch/x/y", "/tmp/home/.keras/models/best.h5"],
            [
                ".cache/torch was taken for a cache or settings of a tool, and w.npy and 1 other file in",
                "and models/best.h5 in",
            ],
        ),
        ([f"/tmp/home/.config/{name}" for name in "abcdefg"], [*[f".config/{name}" for name in "abcde"], "2 more"]),
    ],
)
def test_what_is_left_out_and_may_hold_results_is_named(paths: list[str], notes: list[str]) -> None:
    """A store, and a cache of no known tool; what is known to be none is left out without a word."""
    found = [*notes_on(paths)]
    assert len(found) == len(notes)
    assert all(note in sentence for note, sentence in zip(notes, found, strict=True))


@pytest.mark.parametrize(
    "path", ["whisper/x.pt", "torch/hub/checkpoints/x.pth", "huggingface/hub/models--a--b/blobs/0", "clip/v.pt"]
)
def test_what_a_run_without_a_network_has_downloaded_is_named(path: str) -> None:
    """It has made it: whatever the name, nothing came from elsewhere."""
    assert [*notes_on([f"/tmp/home/.cache/{path}"])] == []
    (found,) = notes_on([f"/tmp/home/.cache/{path}"], offline=True)
    assert path.partition("/")[2] in found
    assert [*notes_on(["/tmp/home/.cache/pip/http/x", "/tmp/home/.nv/ComputeCache/x"], offline=True)] == []


def test_empty_folders_are_named(upper: Path, tmp_path: Path) -> None:
    """But those in temporary folders, which tools make under drawn names."""
    for name in ("res/best/fold-3", "tmp/x"):
        (upper / name).mkdir(parents=True)
    _, left_out = kept_by(EndedProgram(upper, []), tmp_path / "kept")
    assert left_out == ("/res/best/fold-3 was not looked at: it is an empty folder",)


def test_caches_in_memory_are_named(tmp_path: Path) -> None:
    """The hook reports what is in folders of caches, as nothing else of them is read."""
    (tmp_path / "home/.cache/mymodel").mkdir(parents=True)
    (tmp_path / "home/.cache/mymodel/w.bin").write_text("w")
    reported = memory.look([str(tmp_path)])
    assert reported == {"files": [], "left_out": 0, "caches": [f"{tmp_path}/home/.cache/mymodel/w.bin"]}
    listed, left_out = Outside(mounts=(), wanted=(), kept=tmp_path).look_last(reported)
    assert listed == ()
    assert left_out == (
        f"{tmp_path}/home/.cache/mymodel was taken for a cache or settings of a tool, and not looked at",
    )


def test_more_files_in_caches_than_are_reported_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence, as one of them may be a result."""
    monkeypatch.setattr(memory, "CACHES", 1)
    (tmp_path / "home/.cache/torch/kernels").mkdir(parents=True)
    for name in ("a", "b"):
        (tmp_path / "home/.cache/torch/kernels" / name).write_text("w")
    reported = memory.look([str(tmp_path)])
    assert reported["more_caches"] == 1
    _, left_out = Outside(mounts=(), wanted=(), kept=tmp_path).look_last(reported)
    assert left_out == ("1 more files were in folders of caches and were not looked at",)


def test_a_lock_that_is_not_empty_is_named(tmp_path: Path) -> None:
    """In the container, in memory and in mounted folders; a number in it may be a result."""
    own = {"/tmp/a.lock": b"", "/tmp/b.pid": b"\n", "/tmp/w.lock": b"0.73", "/tmp/x.pid": b"12345678"}
    (tmp_path / "mounted").mkdir()
    around = Outside(mounts=(Mount(source=tmp_path / "mounted", target="/results"),), wanted=(), kept=tmp_path / "kept")
    around.look_first()
    (tmp_path / "mounted/c.lock").write_text("")
    (tmp_path / "mounted/m.lock").write_text("accuracy")
    around.look_inside(Files({"/tmp": None, **own}))
    files = [{"path": f"/dev/shm/{size}.lock", "size": size, "sha256": "0" * 64} for size in (0, 8)]
    listed, left_out = around.look_last({"files": files, "left_out": 0})
    assert listed == ()
    assert [each.split()[0] for each in left_out] == ["/dev/shm/8.lock", "/results/m.lock", "/tmp/w.lock", "/tmp/x.pid"]


def test_wanted_outputs_count_and_are_kept(tmp_path: Path) -> None:
    """A path that is named counts though it looks like a cache, and is copied."""
    own = Files({"/tmp/home": None, "/tmp/torchinductor_x": None, "/tmp/torchinductor_x/k.bin": b"kernel"})
    assert found(own, tmp_path) == {}
    assert found(own, tmp_path, wanted=("/tmp/torchinductor_x",)) == {
        "/tmp/torchinductor_x/k.bin": ("created", 6, sha(b"kernel"))
    }
    assert (tmp_path / "tmp/torchinductor_x/k.bin").read_bytes() == b"kernel"


def test_mounted_folders_are_looked_at_before_and_after(tmp_path: Path) -> None:
    """Only what the run changed there, under its path in the container; a file may be mounted too."""
    results, single = tmp_path / "results", tmp_path / "single"
    results.mkdir()
    (results / "old").write_text("as it was")
    single.write_text("a")
    mounts = (
        Mount(source=results, target="/results"),
        Mount(source=tmp_path, target="/all", read_only=True),
        Mount(source=single, target="/one"),
    )
    around = Outside(mounts=mounts, wanted=(), kept=tmp_path / "kept")
    around.look_first()
    (results / "w.npy").write_text("new")
    (results / "a.lock").write_text("")
    single.write_text("other")
    listed, left_out = around.look_last({})
    assert [(each.path, each.change, each.sha256) for each in listed] == [
        ("/one", "changed", sha(b"other")),
        ("/results/w.npy", "created", sha(b"new")),
    ]
    assert left_out == ()


def test_what_was_in_mounted_folders_is_known(tmp_path: Path) -> None:
    """Before the program wrote there; a file by itself; not a large folder."""
    for name in ("ro", "rw", "large"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    (tmp_path / "large" / "b").write_text("")
    (tmp_path / "file").write_text("12345")
    mounts = (
        Mount(source=tmp_path / "ro", target="/data", read_only=True),
        Mount(source=tmp_path / "rw", target="/results"),
        Mount(source=tmp_path / "large", target="/large/"),
        Mount(source=tmp_path / "file", target="/params", read_only=True),
    )
    around = Outside(mounts=mounts, wanted=(), kept=tmp_path / "kept")
    around.look_first()
    (tmp_path / "rw" / "a").write_text("much longer")
    assert {path: state[0] for path, state in around.found_mounted(1).items()} == {
        "/data/a": 2,
        "/params": 5,
        "/results/a": 2,
    }


def test_limits_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit nothing is passed over in silence; an engine that refuses is no reason to fail."""
    monkeypatch.setattr(outside, "MOST_SCANNED", 1)
    monkeypatch.setattr(outside, "MOST_BYTES", 4)
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    around = Outside(mounts=(Mount(source=tmp_path, target="/data"),), wanted=(), kept=tmp_path)
    around.look_first()
    around.look_inside(Files({"/tmp/a": b"1234567", "/tmp/b": b"1"}))
    listed, left_out = around.look_last({"files": [{"path": "/dev/shm/x", "size": 9, "sha256": None}], "left_out": 3})
    assert [(each.path, each.sha256) for each in listed] == [("/dev/shm/x", None), ("/tmp/a", None), ("/tmp/b", None)]
    assert left_out == (
        "/data has more than 1 files and was not looked at",
        "/tmp/a was not looked at: more than 4 B were written",
        "/tmp/b was not looked at: more than 4 B were written",
        "/dev/shm/x lay in memory and was too large to be compared",
        "3 more files were in memory and were not looked at",
    )

    class Refusing(Files):
        def changes(self) -> Mapping[str, FileChange]:
            raise EngineError("no")

    around = Outside(mounts=(), wanted=(), kept=tmp_path)
    around.look_inside(Refusing({}))
    assert around.look_last({})[1] == ("the container's own files were not looked at: no",)


@pytest.mark.parametrize(
    "entry",
    [
        '{"path": "/tmp/\\ud800", "size": 1, "sha256": null}',
        '{"path": "/tmp/a", "size": 1e999, "sha256": null}',
        '{"path": "/tmp/a", "size": 1%s, "sha256": null}' % ("0" * 40),
    ],
)
def test_a_report_of_memory_cannot_keep_the_record_from_being_written(entry: str, tmp_path: Path) -> None:
    """Whatever JSON can hold: the program may write where the hook does."""
    found = json_table(f'{{"left_out": "\\ud800", "files": [{entry}]}}'.encode())
    assert found is not None
    listed, left_out = Outside(mounts=(), wanted=(), kept=tmp_path).look_last(found)
    assert dumps(record(outside=listed, outside_left_out=left_out))


@pytest.mark.parametrize("told", [{"files": 3}, {"files": [None, {"path": 1}]}, {"files": [{"path": "x", "size": 1}]}])
def test_a_damaged_report_of_memory_is_nothing(told: dict[str, object], tmp_path: Path) -> None:
    """The program may write where the hook does."""
    assert Outside(mounts=(), wanted=(), kept=tmp_path).look_last(told) == ((), ())


def test_what_is_in_memory_within_the_project_counts_once(tmp_path: Path) -> None:
    """The hook sees a tmpfs that is mounted in the project's folder; what is in it is among the project's outputs."""
    around = Outside(mounts=(), wanted=(), kept=tmp_path, targets=("/workspace",))
    found = {"files": [{"path": f"{top}/x", "size": 1, "sha256": "a" * 64} for top in ("/workspace/sub", "/dev/shm")]}
    listed, left_out = around.look_last(found)
    assert ([each.path for each in listed], left_out) == (["/dev/shm/x"], ())


def test_the_hook_finds_files_in_memory(tmp_path: Path) -> None:
    """Files of memory file systems with digests, caches left out; those of the engine are not looked at."""
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    (home / ".cache/x").write_text("cache")
    (home / "deep").mkdir()
    (home / "deep/w.bin").write_bytes(b"weights")
    mounts = tmp_path / "mounts"
    lines = [f"tmpfs {home} tmpfs rw 0 0", "tmpfs /dev tmpfs rw 0 0", "shm /dev/shm tmpfs rw 0 0", "x / overlay rw 0 0"]
    mounts.write_text("\n".join([*lines, "tmpfs /proc/acpi tmpfs ro 0 0", ""]))
    assert memory.places(str(mounts)) == [str(home), "/dev/shm"]
    mounts.write_text(f"{lines[0]}\n")
    memory.keep(str(tmp_path), str(mounts))
    path = str(home / "deep/w.bin")
    told = json.loads((tmp_path / "memory.json").read_text())
    caches = [f"{home}/.cache/x"]
    assert told == {"files": [{"path": path, "size": 7, "sha256": sha(b"weights")}], "left_out": 0, "caches": caches}
    (home / "deep/w.bin").unlink()
    memory.keep(str(tmp_path), str(mounts))
    assert json.loads((tmp_path / "memory.json").read_text()) == {"files": [], "left_out": 0, "caches": caches}


def test_an_overlays_own_layer_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in a layer below is changed, all else is new; the mark of a removed file is no file."""
    upper, low, lowest = tmp_path / "upper", tmp_path / "low", tmp_path / "lowest"
    for folder in (upper / "tmp/new", upper / "etc", low / "etc", lowest / "tmp"):
        folder.mkdir(parents=True)
    for file in (upper / "tmp/new/w", upper / "etc/passwd", low / "etc/passwd", upper / "etc/issue"):
        file.write_text("x")
    (upper / "etc/link").symlink_to("/nowhere")
    (upper / "etc/issue").chmod(0o604)  # only root may make a device
    monkeypatch.setattr(layer.stat, "S_ISCHR", lambda mode: mode & 0o777 == 0o604)
    assert layer.layer_changes(str(upper), [str(low), str(lowest)]) == {
        "/tmp": "changed", "/tmp/new": "created", "/tmp/new/w": "created", "/etc": "changed",
        "/etc/passwd": "changed", "/etc/issue": "deleted", "/etc/link": "created",
    }  # fmt: skip


def test_a_file_that_vanishes_while_memory_is_looked_at_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes remove their semaphores at any moment: such a file is left out, and nothing fails."""
    for name in ("early", "kept", "late"):
        (tmp_path / name).write_text(name)
    scandir = os.scandir

    def remove_early(folder: str) -> list[os.DirEntry[str]]:
        entries = sorted(scandir(folder), key=lambda entry: entry.name)
        (tmp_path / "early").unlink()
        return entries

    def remove_late(data: bytes) -> str:
        (tmp_path / "late").unlink(missing_ok=True)
        return data.decode()

    monkeypatch.setattr(memory.os, "scandir", remove_early)
    monkeypatch.setattr(memory, "sha256", remove_late)
    found = memory.look([str(tmp_path)])
    assert [(file["path"], file["sha256"]) for file in found["files"]] == [(str(tmp_path / "kept"), "kept")]


@pytest.fixture(name="upper")
def _upper() -> Iterator[Path]:
    """A program's own layer, in a folder that any user reaches, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        upper = Path(name) / "upper"
        upper.mkdir()
        yield upper
        for folder in upper.glob("*/*/"):
            folder.chmod(0o700)


def kept_by(own: OwnFiles, folder: Path) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Digests of what is found, and what was not looked at: what is named is listed without a digest."""
    around = Outside(mounts=(), wanted=(), kept=folder, targets=("/workspace",))
    around.look_first()
    around.look_inside(own)
    listed, left_out = around.look_last({})
    named = {each.split(" was not ")[0] for each in left_out if each.startswith("/") and " it is a" not in each}
    assert named <= {each.path for each in listed if each.sha256 is None}
    return {each.path: each.sha256 for each in listed if each.sha256 is not None}, left_out


@pytest.mark.parametrize("place", ["res", "tmp"])
def test_what_is_closed_is_named_and_nothing_else_is_lost(upper: Path, tmp_path: Path, place: str) -> None:
    """Neither a folder that cannot be listed nor a file that cannot be read hides what comes behind it."""
    top = upper / place
    (top / "closed").mkdir(parents=True)
    (top / "closed/never-seen").write_text("x")
    (top / "file").write_text("secret")
    (top / "listed").mkdir()
    (top / "listed/w").write_text("no search")
    for name in ("a", "z", *map(str, range(6))):
        (top / name).write_text(name)
    (top / "fifo").touch()
    (top / "fifo").unlink()
    os.mkfifo(top / "fifo")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(top / "socket"))
    low = tmp_path / "low"
    (low / "tmp").mkdir(parents=True)
    with without_rights(upper):
        (top / "closed").chmod(0)
        (top / "file").chmod(0)
        (top / "listed").chmod(0o444)
        files, left_out = kept_by(EndedProgram(upper, [str(low)]), tmp_path / "kept")
    assert files == {f"/{place}/{name}": sha(name.encode()) for name in ("a", "z", *map(str, range(6)))}
    assert sorted(left_out) == [
        f"/{place}/closed was not looked at: it could not be read",
        f"/{place}/fifo was not looked at: it is a FIFO, a socket or a device",
        f"/{place}/file was not looked at: it could not be read",
        f"/{place}/listed/w was not looked at: it could not be read",
    ]


def test_a_folder_that_vanishes_while_it_is_listed_hides_nothing(
    upper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is being ended may still remove what it made."""
    for name in ("a", "gone", "z"):
        (upper / "res" / name).mkdir(parents=True)
        (upper / "res" / name / "w").write_text(name)
    scandir = os.scandir

    def remove(folder: str) -> Any:
        entries = scandir(folder)
        if str(folder).endswith("/res") and (upper / "res/gone").exists():
            shutil.rmtree(upper / "res/gone")
        return entries

    monkeypatch.setattr(layer.os, "scandir", remove)
    files, left_out = kept_by(EndedProgram(upper, []), tmp_path / "kept")
    assert files == {"/res/a/w": sha(b"a"), "/res/z/w": sha(b"z")}
    assert left_out in ((), ("/res/gone was not looked at: it could not be read",))


def test_one_refused_archive_hides_nothing_else(tmp_path: Path) -> None:
    """The engine's refusal of one folder is reported with it; the others are read."""
    own = Files({"/a": b"a", "/b": b"b", "/c": b"c"}, changed=())
    give = own.archive

    def archive(path: str) -> Any:
        if path == "/b":
            raise EngineError("the engine refused to read /b")
        return give(path)

    own.archive = archive  # type: ignore[method-assign]
    files, left_out = kept_by(own, tmp_path)
    assert files == {"/a": sha(b"a"), "/c": sha(b"c")}
    assert left_out == ("/b was not looked at: the engine refused to read /b",)


def test_a_stream_that_ends_early_is_no_whole_one(tmp_path: Path) -> None:
    """What was listed and did not come is named, the first few by name."""
    own = Files({"/res": None, **{f"/res/{number:02}": b"x" for number in range(30)}}, changed=())
    give = own.archive

    @contextmanager
    def archive(path: str) -> Iterator[BinaryIO]:
        with give(path) as stream:
            yield io.BytesIO(stream.read(6 * 512))  # the folder, two files, and the header of a third

    own.archive = archive  # type: ignore[method-assign]
    files, left_out = kept_by(own, tmp_path)
    assert files == {"/res/00": sha(b"x"), "/res/01": sha(b"x")}
    assert left_out[0] == "/res/02 was not looked at: it could not be read"
    assert left_out[-1] == "8 more files, such as in /res, were not looked at: it could not be read"
    assert len(left_out) == 21


def test_a_file_beyond_the_limit_is_named_with_all_that_comes_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is silently unseen where more was written than is read."""
    monkeypatch.setattr(outside, "MOST_BYTES", 100)
    own = Files({"/res": None, "/res/a": b"a", "/res/b": b"b" * 200, "/res/c": b"c", "/z": b"z"}, changed=())
    files, left_out = kept_by(own, tmp_path)
    assert files == {"/res/a": sha(b"a")}
    assert [each.split(" was ")[0] for each in left_out] == ["/res/b", "/res/c", "/z"]
    assert all(each.endswith("more than 100 B were written") for each in left_out)


def test_a_closed_file_in_a_mounted_folder_is_named(upper: Path, tmp_path: Path) -> None:
    """It has a line of its own, without a digest, and so has a closed folder."""
    around = Outside(mounts=(Mount(source=upper, target="/results"),), wanted=(), kept=tmp_path / "kept")
    with without_rights(upper):
        around.look_first()
        (upper / "file").write_text("x")
        (upper / "res/closed").mkdir(parents=True)
        (upper / "res/closed/never-seen").write_text("x")
        (upper / "file").chmod(0)
        (upper / "res/closed").chmod(0)
        listed, left_out = around.look_last({})
    assert {each.path: each.sha256 for each in listed} == {"/results/file": None, "/results/res/closed": None}
    assert left_out == (
        "/results/file was not looked at: it could not be read",
        "/results/res/closed was not looked at: it could not be read",
    )


def test_a_file_that_ends_early_has_no_digest(upper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails in the middle of a file: it and what comes behind it are named, no digest is of other bytes."""
    (upper / "res").mkdir()
    for name in ("a", "b", "c"):
        (upper / "res" / name).write_bytes(name.encode() * 100_000)
    whole = tarfile.copyfileobj

    def copy(source: Any, target: Any, length: int | None = None, *rest: Any, **more: Any) -> None:
        if source.name.endswith("/b"):
            target.write(source.read(1000))
            raise OSError("input/output error")
        whole(source, target, length, *rest, **more)

    monkeypatch.setattr(tarfile, "copyfileobj", copy)
    files, left_out = kept_by(EndedProgram(upper, []), tmp_path / "kept")
    assert files == {"/res/a": sha(b"a" * 100_000)}
    assert [each.split(" was ")[0] for each in left_out] == ["/res/b", "/res/c"]


def test_what_was_handed_over_is_not_the_programs(tmp_path: Path) -> None:
    """Where the driver's files are mounted and linked, files and folders are made; others in there are its own."""
    upper = tmp_path / "upper"
    folder = upper / "usr/local/nvidia/lib64"
    folder.mkdir(parents=True)
    for name in ("libcuda.so.1", "w.npy"):
        (folder / name).touch()
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    mount = {"target": "/usr/local/nvidia/lib64/libcuda.so.1"}
    handed = Handed(mounts=(mount,), links={"/usr/local/nvidia/lib64/libcuda.so": "libcuda.so.1"})
    own = EndedProgram(upper, [], None, handed.places())
    assert own.changes() == {"/usr/local/nvidia/lib64/w.npy": "created"}


def test_folders_in_folders_have_no_limit(upper: Path, tmp_path: Path) -> None:
    """Deeper than Python's own stack, and as deep as a path may be."""
    folders = [upper / "res"]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
    for folder in folders:
        folder.mkdir()
    last = folders[-1] / "w"
    last.write_text("w")
    files, left_out = kept_by(EndedProgram(upper, []), tmp_path / "kept")
    last.unlink()
    for folder in reversed(folders):  # too deep for what removes the rest
        folder.rmdir()
    assert list(files.values()) == [sha(b"w")]
    assert left_out == ()


def test_thousands_of_files_in_a_folder_of_the_image_are_read_in_turn(tmp_path: Path) -> None:
    """What is expected of each is known without a search through all of them."""
    own = Files({f"/opt/{number}": b"x" for number in range(3000)}, changed=("/opt",))
    own.archive = one_file  # type: ignore[method-assign]
    files, left_out = kept_by(own, tmp_path)
    assert len(files) == 3000
    assert left_out == ()


@contextmanager
def one_file(path: str) -> Iterator[BinaryIO]:
    """A file by itself as tar."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo(path.rpartition("/")[2])
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    data.seek(0)
    yield data


def test_files_are_copied_to_compare_what_they_hold(
    upper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the container and of mounts, as far as there is room; all have a digest, whether they are copied or not."""
    monkeypatch.setattr(outside, "COPIED_FILE", 6)
    monkeypatch.setattr(outside, "COPIED", 12)
    copies, kept = tmp_path / "copies", tmp_path / "kept"
    mounts = (Mount(source=upper, target="/results"),)
    around = Outside(mounts=mounts, wanted=("/res/wanted",), kept=kept, copies=copies)
    around.look_first()
    own = Files({"/res": None, "/res/a": b"inside", "/res/large": b"too large", "/res/wanted": b"w"}, changed=())
    around.look_inside(own)
    (upper / "log").write_text("mount")
    (upper / "more").write_text("over")
    (upper / "link").symlink_to("log")
    listed, left_out = around.look_last({})
    assert left_out == ()
    found = {path.relative_to(copies).as_posix(): path.read_bytes() for path in copies.rglob("*") if path.is_file()}
    assert found == {"res/a": b"inside", "res/wanted": b"w", "results/log": b"mount"}
    assert (kept / "res/wanted").read_bytes() == b"w"
    assert {each.path: each.sha256 for each in listed} == {
        "/res/a": sha(b"inside"),
        "/res/large": sha(b"too large"),
        "/res/wanted": sha(b"w"),
        "/results/log": sha(b"mount"),
        "/results/more": sha(b"over"),
        "/results/link": sha(b"log"),
    }


def test_a_full_disk_costs_a_copy_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has its digest, and half a copy would be taken for what it holds."""
    around = Outside(mounts=(), wanted=(), kept=tmp_path / "kept", copies=tmp_path / "copies")
    monkeypatch.setattr(outside, "_PIECE", 2)
    opened = outside._made

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            if self.tell() >= 4:
                raise OSError(28, "No space left on device")
            return super().write(data)

    def made(path: Path) -> io.FileIO:
        opened(path).close()
        return Full(path, "wb")

    monkeypatch.setattr(outside, "_made", made)
    around.look_inside(Files({"/res": None, "/res/a": b"123456", "/res/b": b"1234"}, changed=()))
    listed, left_out = around.look_last({})
    assert {each.path: each.sha256 for each in listed} == {"/res/a": sha(b"123456"), "/res/b": sha(b"1234")}
    assert left_out == ()
    assert [path.name for path in (tmp_path / "copies/res").iterdir()] == ["b"]


def test_a_mounted_folder_that_is_gone_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at for comparisons alone."""

    def gone(*_: object) -> None:
        raise OSError(116, "Stale file handle")

    around = Outside(mounts=(Mount(source=tmp_path, target="/data", read_only=True),), wanted=(), kept=tmp_path)
    around.look_first()
    monkeypatch.setattr(outside.workspace, "scan_mount", gone)
    assert around.found_mounted(10) == {}


def test_where_something_is_mounted_is_named(tmp_path: Path) -> None:
    """But in the project, which is looked at anyway, and for folders of packages: they are no code of the program's."""
    for name in ("data", "packages/numpy-2.4.6.dist-info", "project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "one.csv").touch()
    mounts = [
        Mount(source=tmp_path / source, target=target)
        for source, target in (
            ("data", "/data"), ("one.csv", "/one.csv"), ("packages", "/frameworks"), ("project", "/workspace/sub"),
            ("gone", "/gone"),
        )
    ]  # fmt: skip
    name_mounted(mounts, tmp_path)
    assert (tmp_path / "mounted").read_bytes() == b"/data\0/one.csv\0/gone\0"
    (tmp_path / "mounted").unlink()
    name_mounted(mounts[2:4], tmp_path)
    assert not (tmp_path / "mounted").exists()
