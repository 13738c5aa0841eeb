"""Programs that are no Python and take files in the order of the file system."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.foreign_listings import listed_by_programs, timed_by_programs


@pytest.mark.parametrize(
    "text",
    [
        "tar -cf out.tar data",
        "tar cf - data | sha256sum",
        "tar --create --file out.tar data",
        "tar -C data -cf out.tar .",
        "find data -name '*.csv' | head -1",
        "find data -type f | xargs cat",
        "ls -U data | head",
        "ls -1 -f data",
        "zip -qr out.zip data",
        "grep -rh pattern data | head -5",
        "echo a; find . -name x",
        "cat $(find data -name '*.txt')",
    ],
)
def test_what_goes_through_a_folder_in_its_order(text: str) -> None:
    """In a shell's text, in a script, as the run's own command, and where Python starts it."""
    shell = f"import subprocess\nsubprocess.run({text!r}, shell=True)\n"
    assert {where for _, where in listed_by_programs({"t.py": shell}, {}, ["python", "t.py"])} == {"t.py:2"}
    assert [where for _, where in listed_by_programs({}, {"run.sh": f"#!/bin/sh\n{text}\n"}, [])] == ["run.sh:2"]
    assert [where for _, where in listed_by_programs({}, {}, ["sh", "-c", text])] == [""]


@pytest.mark.parametrize(
    "text",
    [
        "tar -xf out.tar",
        "tar -tf out.tar",
        "tar --sort=name -cf out.tar data",
        "tar -cf out.tar -T list.txt",
        "tar -cf out.tar a.csv b.csv",
        "find data -name '*.csv' | sort | head -1",
        "find data -name '*.csv' | LC_ALL=C sort",
        "find data -type f | wc -l",
        "find data -name '*.tmp' -delete",
        "find data -name '*.tmp' | xargs rm -f",
        "ls -l data",
        "grep -rq pattern data",
        "grep pattern data.txt",
        "zip out.zip a.csv",
        "cat data/*.csv",
        "echo find the best",
        "# tar -cf out.tar data",
    ],
)
def test_what_has_an_order_of_its_own(text: str) -> None:
    """Or needs none."""
    shell = f"import subprocess\nsubprocess.run({text!r}, shell=True)\n" if not text.startswith("#") else ""
    assert [*listed_by_programs({"t.py": shell}, {"run.sh": f"{text}\n"}, [])] == []


def test_what_python_puts_in_order() -> None:
    """Of what a program printed; an archive has its order already."""
    source = "import subprocess\nx = subprocess.check_output(['find', 'data'])\n"
    assert [*listed_by_programs({"t.py": source}, {}, [])] == [("find data", "t.py:2")]
    assert [*listed_by_programs({"t.py": f"{source}y = sorted(x)\n"}, {}, [])] == []
    packed = "import subprocess\nsubprocess.run(['/usr/bin/tar', '-cf', out, '-C', a, b])\ny = sorted(x)\n"
    assert [*listed_by_programs({"t.py": packed}, {}, [])] == [("tar -cf '…' -C '…' '…'", "t.py:2")]


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("find data -name '*.csv' -newer LOADED | sort", "find data -name '*.csv' -newer LOADED"),
        ("cat $(ls -t data | head -1)", "ls -t data"),
        ("if [ a.csv -nt b.csv ]; then make; fi", "[ a.csv -nt b.csv"),
        ("find data -name '*.csv' | sort", ""),
        ("ls -l data", ""),
        ("# ls -t data", ""),
    ],
)
def test_what_goes_by_times_of_files(line: str, quoted: str) -> None:
    found = [words for words, _ in timed_by_programs({}, {"a.sh": line}, ["python", "t.py"])]
    assert found == ([quoted] if quoted else [])
