"""``python -m envbuild``."""

import sys

from envbuild.cli import main

if __name__ == "__main__":
    sys.exit(main())
