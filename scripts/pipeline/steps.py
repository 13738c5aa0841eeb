"""The steps before anything is published: fresh, fetch, build, compare, guard, example, bills of materials."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from envbuild.errors import HostMismatchError, NotReproducibleError
from envbuild.image.record import ImageRecord, check_reproduced, image_tag, read_image_record, write_image_record
from envbuild.lockfile import model as locks
from envbuild.lockfile.model import Lock
from scripts.pipeline.builders import NAMES, Builder
from scripts.pipeline.console import envbuild, forget_image, report
from scripts.pipeline.subject import ROOT, Subject

_HELLO = "print('the locked program runs')\n"
_NO_HOST = ">=99"
"""A range of kernels that no host has."""


def fresh(subject: Subject) -> None:
    """Refuse a lock that is not what its spec asks for (exit 11)."""
    envbuild("lock", "--check", "spec.yaml", cwd=subject.folder)
    report("fresh", f"{subject.name}  {subject.path.name} is what spec.yaml asks for")


def fetch(subject: Subject) -> None:
    """Download the lock's files once, verified, for both builders."""
    vendor = subject.note("vendor")
    shutil.rmtree(vendor, ignore_errors=True)
    vendor.parent.mkdir(parents=True, exist_ok=True)
    envbuild("fetch", "--vendor", vendor, subject.path, cwd=subject.folder)
    files = [path for path in vendor.rglob("*") if path.is_file()]
    report("fetch", f"{subject.name}  {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")


def build(subject: Subject, builder: Builder) -> None:
    """Build on one builder and keep what came of it."""
    subject.keep(f"{builder.name}.json", builder.build(subject))


def compare(subject: Subject) -> None:
    """Compare what the two builders made.

    Raises:
        NotReproducibleError: the digests differ.
    """
    here, elsewhere = (subject.built(name) for name in NAMES)
    equal = (here.config, here.manifest) == (elsewhere.config, elsewhere.manifest)
    equal = equal and here.lock == elsewhere.lock == locks.lock_digest(subject.lock)
    for name, made in zip(NAMES, (here, elsewhere), strict=True):
        report("compare", f"{subject.name}  {name:<9}  config sha256:{made.config}  manifest sha256:{made.manifest}")
    if not equal:
        raise NotReproducibleError(
            "\n".join([f"{subject.name}: the two builders made different images", *_where(here, elsewhere)]),
            f"see the path and field: envbuild build --verify {subject.path.name}",
        )
    report("compare", f"{subject.name}  equal")
    _compare_recorded(subject, here)


def _compare_recorded(subject: Subject, made: ImageRecord) -> None:
    """Compare with the digest that is in version control next to the lock, if this very envbuild can be asked for it.

    Raises:
        NotReproducibleError: same lock, same recipe, other bits.
    """
    recorded = read_image_record(subject.path, subject.lock)
    if recorded is None:
        return
    if recorded.recipe != made.recipe:
        report("recorded", f"{subject.name}  sha256:{recorded.config}  by another state of envbuild: not comparable")
        return
    check_reproduced(subject.path, recorded, made)
    report("recorded", f"{subject.name}  sha256:{recorded.config}  equal")


def _where(here: ImageRecord, elsewhere: ImageRecord) -> list[str]:
    """Name the layers that differ, bottom first."""
    one, other = here.layers, elsewhere.layers
    if len(one) != len(other):
        return [f"  {len(one)} layers and {len(other)}"]
    wrong = [number for number, pair in enumerate(zip(one, other, strict=True), 1) if pair[0] != pair[1]]
    if not wrong:
        return ["  all layers are equal; the configuration differs"]
    return [f"  layer {number} of {len(one)} differs" for number in wrong]


def guard(subject: Subject) -> None:
    """Try the guard of the image that ``here`` made: it lets this host run, and refuses one that the lock excludes.

    A lock for GPUs is refused on a host without them, which is then what is tested.
    """
    refuses = subject.lock.hardware.gpu is not None and not _has_gpu()
    expected = HostMismatchError.exit_code if refuses else 0
    envbuild("check", subject.path, cwd=subject.folder, expected=expected)
    project = _project(subject, subject.lock, "guard")
    text = envbuild("run", "hello.py", cwd=project, environ=_here(subject), expected=expected)
    if refuses:
        _refused(text, "gpu")
        report("guard", f"{subject.name}  refused this host, which has no such GPU; nothing was run")
        return
    report("guard", f"{subject.name}  accepted this host: {text.strip()}")
    hardware = msgspec.structs.replace(subject.lock.hardware, kernel=_NO_HOST)
    lock = msgspec.structs.replace(subject.lock, name=f"{subject.name}-nohost", hardware=hardware)
    project = _project(subject, lock, "nohost")
    try:
        envbuild("build", "--offline", "--from", subject.note("vendor"), cwd=project, environ=_here(subject))
        text = envbuild("run", "hello.py", cwd=project, environ=_here(subject), expected=HostMismatchError.exit_code)
    finally:
        forget_image(image_tag(lock))
    _refused(text, "kernel")
    report("guard", f"{subject.name}  refused a host whose kernel is not {_NO_HOST}; nothing was run")


def example(subject: Subject) -> None:
    """Run the example that belongs to a lock twice, where there is one: equal bits, or exit 16."""
    source = ROOT / "examples" / subject.folder.name
    if not (source / "train.py").is_file():
        report("example", f"{subject.name}  none")
        return
    project = subject.note("example")
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(source, project, ignore=shutil.ignore_patterns(".envbuild", "pylock.*", "Dockerfile"))
    for path in (subject.path, subject.folder / "Dockerfile"):
        shutil.copy(path, project)
    envbuild("verify", "-n", "2", "train.py", cwd=project, environ=_here(subject))
    report("example", f"{subject.name}  examples/{source.name}/train.py: two runs, the same bits")


def bills(subject: Subject) -> None:
    """Write the bill of materials in both formats and check each against its official schema."""
    folder = subject.note("bills")
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the digests of the image that both builders made, so that the bill names it.
    project = _project(subject, subject.lock, "described")
    write_image_record(project / subject.path.name, subject.built("here"))
    written = [folder / f"{subject.name}.cdx.json", folder / f"{subject.name}.spdx.json"]
    for kind, path in zip(("cyclonedx", "spdx"), written, strict=True):
        envbuild("sbom", "--format", kind, "-o", path, cwd=project, environ=_here(subject))
    from tests.support.environments import environment

    variables = {**os.environ, "PYTHONPATH": str(environment("scanners"))}
    program = Path(__file__).with_name("valid_bills.py")
    subprocess.run([sys.executable, program, *written], env=variables, check=True)
    report("sbom", f"{subject.name}  {written[0].name} (CycloneDX 1.6) and {written[1].name} (SPDX 2.3), both valid")


def _here(subject: Subject) -> dict[str, str]:
    """Return the environment of commands that use what ``here`` built."""
    return {**os.environ, "ENVBUILD_STORE": str(subject.note("here") / "store"), "PYTHONPATH": str(ROOT)}


def _project(subject: Subject, lock: Lock, name: str) -> Path:
    """Make a project with a lock and a small program."""
    project = subject.note(name)
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir(parents=True)
    (project / f"pylock.{lock.name}.toml").write_bytes(locks.dumps(lock))
    (project / "hello.py").write_text(_HELLO)
    return project


def _has_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists()


def _refused(text: str, field: str) -> None:
    """Make sure that the guard named the field and the program did not run."""
    if "does not match" not in text or field not in text or "the locked program runs" in text:
        raise NotReproducibleError(f"the guard did not refuse this host for its {field}:\n{text}")
