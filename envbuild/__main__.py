"""``python -m envbuild``."""

from envbuild.cli import entry

if __name__ == "__main__":
    entry()
