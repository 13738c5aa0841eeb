"""Images as they lie in the store: the command that shows one. Everything slow is imported inside it."""

from __future__ import annotations

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, app


@app.command()
def image(lock: LockArgument = None, as_json: Json = False) -> None:
    """Show what each layer of the locked image weighs.

    From bottom to top: bytes, files, digest, and which other locks share it. Needs no engine, but a build before."""
    from envbuild.cli.layering import show_image

    show_image(lock, Console(as_json=as_json))
