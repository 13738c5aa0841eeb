"""Checks bills of materials against the official schemas: ``valid_bills.py FILE.cdx.json FILE.spdx.json``.

Runs with the scanners' packages on the path (tests/support/pins/scanners.txt), which carry the schemas.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(cyclonedx: str, spdx: str) -> int:
    """Return 0 if both are valid; else state why not."""
    import jsonschema
    import lib4sbom
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(Path(cyclonedx).read_text())
    schema = json.loads((Path(lib4sbom.__file__).parent / "schemas" / "spdx" / "2.3-schema.json").read_text())
    problems = [str(problem)] if problem else []
    found = jsonschema.Draft7Validator(schema).iter_errors(json.loads(Path(spdx).read_text()))
    problems += [f"{spdx}: {error.message}" for error in found]
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
