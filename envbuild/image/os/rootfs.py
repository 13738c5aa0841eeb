"""The OS layer: Debian packages bootstrapped from nothing, or the file system of a base image.

Essential packages are unpacked in Python into a seed; dpkg and the packages' own scripts do the rest in one
container without network; what comes out is normalised. No base image is needed and none is trusted. The idea is
that of debootstrap's second stage, the order that of Debian Policy 7.2.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from envbuild.core.digest import sha256_bytes, sha256_json
from envbuild.core.progress import Progress
from envbuild.engine.protocol import Step, StepRunner, TreeStep, TreeStepRunner
from envbuild.errors import BuildError
from envbuild.image.os.base import base_layer
from envbuild.image.os.normalise import FILES, FOLDERS, LINKS, normalise, normalise_tree
from envbuild.image.os.seed import (
    WORK,
    Source,
    dpkg_config,
    fill_seed,
    install_script,
    open_packages,
    uncompressed,
    write_seed_and_inputs,
)
from envbuild.image.tar.layer import Layer
from envbuild.lockfile import layout
from envbuild.lockfile.model import Os

_FAILED = re.compile(r"dpkg: error processing (?:package|archive) (?:\S*/)?([a-z0-9][a-z0-9+.-]+)")


def os_key(os: Os) -> str:
    """Return the digest of everything the OS layer's bytes depend on: packages, layout, install script, constants.

    Dates, suites, mirrors and the order of packages are not among them.
    """
    return sha256_json(
        {
            "layout": layout.VERSION,
            "architecture": os.architecture,
            "image": [os.image, os.image_rootfs],
            "packages": sorted([package.name, package.version, package.sha256] for package in os.packages),
            "script": sha256_bytes(install_script()),
            "dpkg": sha256_bytes(dpkg_config()),
            "constants": [FOLDERS, {path: sha256_bytes(data) for path, data in FILES.items()}, LINKS],
        }
    )


def build_os_layer(
    os: Os,
    store_path: Callable[[str], Path],
    runner: StepRunner,
    output: Path,
    progress: Progress,
    stream: BinaryIO | None = None,
    trees: TreeStepRunner | None = None,
    configuring: Callable[[], object] = lambda: None,
) -> Layer:
    """Build the OS layer from what is in the store, packages or a base image; the output is whole or absent.

    Args:
        os: the locked packages; any order gives the same layer.
        store_path: path of a file by its SHA-256.
        runner: runs the one step in a container without network.
        output: where the uncompressed tar goes; temporary files are next to it.
        progress: receives how many packages are read.
        stream: takes the tar instead of ``output``.
        trees: runs the step instead of ``runner``, and leaves what the packages have made where it is.
        configuring: called when the step's file system is there; not at all without ``trees``.

    Raises:
        IntegrityError: a package file is missing or does not match the lock.
        BuildError: a package is unsound, or its installation fails; names the package.
        EngineError: no container engine.
    """
    if os.image:
        return base_layer(os, store_path, output, stream)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".os-", dir=output.parent) as folder:
        work = Path(folder)
        sources = open_packages(os, store_path)
        if trees is not None:
            return _in_a_tree(os, sources, work, trees, output, progress, stream, configuring)
        with progress.phase("os: unpack", len(sources), unit="packages") as advance:
            seed = write_seed_and_inputs(os, sources, work / "seed.tar", work / "inputs.tar", advance)
        step = Step(
            base=work / "seed.tar",
            base_key=f"os-{seed.diff_id}",
            inputs=work / "inputs.tar",
            command=("/bin/sh", f"/{WORK}/install.sh"),
            environment={},
        )
        with progress.phase("os: configure"), _naming_the_package(), runner.run_step(step) as system:
            return normalise(system, output, "the OS layer", layout.ENV_PREFIX.strip("/"), into=stream)


def _in_a_tree(
    os: Os,
    sources: Sequence[Source],
    work: Path,
    trees: TreeStepRunner,
    output: Path,
    progress: Progress,
    stream: BinaryIO | None,
    filled: Callable[[], object],
) -> Layer:
    """Build the layer in one folder: the seed is unpacked there, dpkg reads packages in ``work``, its files stay.

    All packages are whole and every member is checked when dpkg starts.
    """
    with ExitStack() as stack:
        packages = stack.enter_context(uncompressed(sources, work))

        def fill(output: BinaryIO) -> None:
            with progress.phase("os: unpack", len(sources), unit="packages") as advance:
                fill_seed(os, sources, output, advance, packages)
            stack.enter_context(progress.phase("os: configure"))
            filled()

        step = TreeStep(
            fill=fill,
            files=packages.files,
            folder=f"/{WORK}/debs",
            command=("/bin/sh", f"/{WORK}/install.sh"),
            environment={},
            one_processor=True,
            removed_later=True,
        )
        with _naming_the_package(), trees.run_tree_step(step) as found:
            return normalise_tree(found, output, "the OS layer", layout.ENV_PREFIX.strip("/"), into=stream)


def image_layer_from_export(stream: BinaryIO, output: Path) -> Layer:
    """Normalise a base image's exported file system into a layer.

    Args:
        stream: tar of the file system, as engines export containers.
        output: where the uncompressed tar goes.

    Raises:
        BuildError: the stream is no sound tar, or holds names that cannot be in a layer.
    """
    return normalise(stream, output, "the base image")


@contextmanager
def _naming_the_package() -> Iterator[None]:
    """Name first which package failed."""
    try:
        yield
    except BuildError as error:
        match = _FAILED.search(error.message)
        if match is None:
            raise
        raise BuildError(
            f"the OS package {match[1]} could not be installed: {error.message}",
            "leave the package out of the spec's os.packages, or lock again for another version of it: envbuild lock",
        ) from None
