"""Three runs from Python: two that must be equal, one with another learning rate, and a page about all three.

    python examples/python-api/sweep.py examples/digits

The project needs a spec.yaml and a train.py with an option --learning-rate. A program that trains many models can rely
on the comparison: what differs between two runs is what was changed on purpose, or it is named.
"""

import os
import sys
from pathlib import Path

import envbuild
from envbuild.errors import EnvbuildError


def sweep(project: Path) -> int:
    """Run, compare, report; returns 1 if equal runs differ."""
    os.chdir(project)
    lock = envbuild.lock("spec.yaml")
    image = envbuild.build(lock)
    print(f"image {image.record.config[:12]} of {lock.path.name}")

    first = envbuild.run(["train.py"], lock=lock)
    again = envbuild.run(["train.py"], lock=lock)
    if not envbuild.diff(first, again).equal:
        print("the same command gave other results")
        return 1
    print("two runs, the same bits")

    other = envbuild.run(["train.py", "--learning-rate", "0.01"], lock=lock)
    difference = envbuild.diff(first, other).difference
    print(f"another learning rate: results {difference.outcome}")
    for cause in difference.causes[:3]:
        print(f"  {cause.sentence}")

    page = envbuild.report([first, again, other], "report.html")
    print(f"wrote {page.path}, {page.size:,} bytes")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(sweep(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    except EnvbuildError as error:
        print(f"{error.message}\n  {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
