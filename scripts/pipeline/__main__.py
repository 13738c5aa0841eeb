"""``python -m scripts.pipeline STEP [LOCK…]``: one step, as the workflows call it, or ``run`` for all.

Exit codes are envbuild's own (docs/reference/exit-codes.md): 11 a stale lock, 16 two builders made different images.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from envbuild.errors import EnvbuildError, UsageError
from envbuild.image.record import image_tag
from scripts.pipeline import publishing, signatures, steps
from scripts.pipeline.builders import NAMES, Builder
from scripts.pipeline.console import holds_image, report
from scripts.pipeline.subject import SMALL, Subject, all_names, names_to_build, subjects

_SIMPLE: dict[str, Callable[[Subject], object]] = {
    "fresh": steps.fresh,
    "fetch": steps.fetch,
    "compare": steps.compare,
    "guard": steps.guard,
    "example": steps.example,
    "bills": steps.bills,
    "receive": publishing.receive,
    "forget": publishing.forget,
}


def main() -> int:
    """Parse, run, tell; returns the exit code."""
    options = _parser().parse_intermixed_args()
    publishing.use_runner_folder()
    try:
        if options.step == "run":
            return _run(options)
        if options.step == "list":
            _list()
        elif options.step == "login":
            publishing.login(options.registry)
        else:
            for subject in subjects(options.locks, (options.work or Path("build/pipeline")).resolve()):
                _step(options, subject)
    except EnvbuildError as error:
        hint = f"\n  → {error.hint}" if error.hint else ""
        print(f"pipeline: {error.message}{hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/pipeline.sh", description="The image pipeline, whole or by steps.")
    several = ["run", "list", "login", "build", "push", "sign", *_SIMPLE]
    parser.add_argument("step", choices=several, metavar="STEP", help=", ".join(several))
    parser.add_argument("locks", nargs="*", metavar="LOCK", help="names below lockfiles/, or paths; default: digits")
    parser.add_argument("--all", action="store_true", help="every reference lock")
    parser.add_argument(
        "--work", type=Path, help="what the steps hand on: build/pipeline; `run` keeps it only if named"
    )
    parser.add_argument("--builder", choices=NAMES, default=NAMES[0], help="which of the two builders")
    parser.add_argument("--engine", default="", help="of the builder: own, none, containerd, classic or an address")
    parser.add_argument("--leak", action="store_true", help="let the mask into one image: must fail with exit code 16")
    parser.add_argument("--registry", default=os.environ.get("PIPELINE_REGISTRY", ""), help="where to push to")
    parser.add_argument("--key", default="", help="cosign's private key; COSIGN_PASSWORD opens it")
    parser.add_argument("--public", default="", help="its public key, which `receive` demands")
    parser.add_argument("--keyless", action="store_true", help="sign as the workflow of GitHub Actions that runs")
    return parser


def _list() -> None:
    """Describe what to build; in GitHub Actions as the step's output ``locks``."""
    names = json.dumps(names_to_build(os.environ.get("PIPELINE_SINCE", "")))
    print(names)
    if output := os.environ.get("GITHUB_OUTPUT"):
        with open(output, "a") as file:
            file.write(f"locks={names}\n")


def _signer(options: argparse.Namespace, folder: Path) -> signatures.Signer:
    """Return who signs; with no registry, key or identity named, a separate pair."""
    if options.keyless:
        return signatures.keyless_signer()
    if options.key and options.public:
        return signatures.key_signer(str(Path(options.key).resolve()), str(Path(options.public).resolve()))
    if options.key or options.step == "sign" or options.registry:
        raise UsageError("expected --keyless, or --key FILE with --public FILE", "see docs/how-to/ci.md")
    return signatures.own_signer(folder)


def _step(options: argparse.Namespace, subject: Subject) -> None:
    """Run one step on one lock."""
    if options.step == "build":
        steps.build(subject, _builder(options, options.builder))
    elif options.step == "push":
        publishing.push(subject, publishing.named(options.registry))
    elif options.step == "sign":
        signatures.sign(subject, _signer(options, subject.note("keys")))
    else:
        _SIMPLE[options.step](subject)


def _builder(options: argparse.Namespace, name: str) -> Builder:
    default = "own" if name == "here" else "none"
    engine = options.engine if options.engine and (name == "elsewhere" or options.step == "build") else default
    return Builder(name=name, engine=engine, leak=options.leak and name == "elsewhere")


def _run(options: argparse.Namespace) -> int:
    """Run everything, one lock after the other."""
    names = all_names() if options.all else options.locks or list(SMALL)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="envbuild-pipeline-") as folder:
        chosen = subjects(names, options.work.resolve() if options.work else Path(folder))
        signer = _signer(options, Path(folder) / "keys")
        with publishing.a_registry(options.registry, Path(folder)) as registry:
            for subject in chosen:
                _whole(options, subject, registry, signer)
        report("done", f"{len(chosen)} image{'s' * (len(chosen) != 1)}  {time.monotonic() - began:.0f} s")
        for subject in chosen:
            digests = [subject.built(name).config for name in NAMES]
            report("image", f"{subject.name}  sha256:{digests[0]}  sha256:{digests[1]}  equal")
    return 0


def _whole(options: argparse.Namespace, subject: Subject, registry: str, signer: signatures.Signer) -> None:
    before = holds_image(image_tag(subject.lock))
    steps.fresh(subject)
    steps.fetch(subject)
    for name in NAMES:
        steps.build(subject, _builder(options, name))
    try:
        steps.compare(subject)
        steps.guard(subject)
        steps.example(subject)
        steps.bills(subject)
        publishing.push(subject, registry)
        signatures.sign(subject, signer)
        publishing.receive(subject)
    finally:
        if not before:
            publishing.forget(subject)
        if not options.work:
            publishing.tidy(subject)


if __name__ == "__main__":
    sys.exit(main())
