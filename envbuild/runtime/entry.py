"""Lies in an image as /opt/envbuild/guard.py: finds the guard and runs it. Small, since it is never cached."""

import sys

sys.path.insert(0, "/opt/envbuild/lib")
from _envbuild.guard.__main__ import main  # type: ignore[import-not-found]

sys.exit(main(sys.argv[1:]))
