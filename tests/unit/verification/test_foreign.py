"""Programs that are not Python: what their words and scripts show, and what no experiment can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.operations.verification.other_programs import differing_programs, drawing_program
from envbuild.record.model import Output
from envbuild.record.processes import Asked
from envbuild.verification.causes.evidence import Culprit, Evidence
from envbuild.verification.causes.foreign import begun_at_once, of_command, scripts_named, shell_commands, suspicions
from envbuild.verification.causes.ranking import rank_causes
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.ran import Ran
from tests.support.records import process, record
from tests.support.runtime import make_lock

SCRIPTS = {
    "sim.R": "x <- rnorm(10)\n",
    "seeded.R": "set.seed(7)\nx <- rnorm(10)\n",
    "run.sh": "#!/bin/bash\n# shuf names.txt\nset -e\nRscript sim.R > x.csv\n",
    "quiet.sh": "cp a b\nsort a > c\n",
    "dice.sh": "echo $((RANDOM % 6))\n",
    "sim.c": "int main() { srand(time(NULL)); }",
}


def evidence(source: str, **changes: Any) -> Evidence:
    """Two runs of a source, of which nothing else is known."""
    table: dict[str, Any] = {"a": record(), "b": record(), "lock": make_lock(), "scripts": SCRIPTS}
    return Evidence(sources={"train.py": source}, **{**table, **changes})


@pytest.mark.parametrize(
    ("call", "attempt"),
    [
        ('subprocess.run(["Rscript", "sim.R"])', "set.seed(N)"),
        ('subprocess.run(["bash", "run.sh"])', "set.seed(N)"),
        ('os.system("bash dice.sh > out.txt")', "RANDOM=N"),
        ("os.system(\"awk 'BEGIN { srand(); print rand() }' < a > b\")", "srand(N)"),
        ('subprocess.check_output("cat a | sort -R | head -1", shell=True)', "--random-source"),
        ('asyncio.create_subprocess_exec("shuf", "-n", "3", name)', "--random-source"),
        ('subprocess.Popen(["perl", "-ne", "print if rand() < 0.5"])', "srand(N)"),
        ('command = ["./sim", str(n)]\nsubprocess.run(command)', "srand(N) in C"),
        ('subprocess.run("x=$(shuf -n 1 a); echo $x", shell=True)', "--random-source"),
    ],
)
def test_a_program_that_draws_without_a_seed_is_named_with_its_remedy(call: str, attempt: str) -> None:
    """By its command line or by the script that it is given; nothing is called proven."""
    first = rank_causes(evidence(f"import asyncio, os, subprocess\n{call}\n"))[0]
    assert "draws random numbers" in first.what
    assert "does not look inside" in first.what
    assert "proven" not in first.what
    assert attempt in first.attempt


@pytest.mark.parametrize(
    "call",
    [
        'subprocess.run(["Rscript", "seeded.R"])',
        'subprocess.run(["bash", "quiet.sh"])',
        "os.system(\"awk '{ print $1 }' a\")",
        "os.system(\"awk 'BEGIN { srand(3); print rand() }'\")",
        'subprocess.run(["shuf", "--random-source=seed.bin", "a"])',
        'subprocess.run("git rev-parse HEAD", shell=True)',
        'subprocess.run([sys.executable, "other.py"])',
        'trainer.run("shuf.sh")',
        'os.system("echo RANDOM FOREST")',
        'subprocess.run("RANDOM=3; echo $RANDOM", shell=True, executable="/bin/bash")',
    ],
)
def test_programs_that_repeat_are_not_named(call: str) -> None:
    """A seed in the script, or nothing that draws, is no cause; neither is a program that reads and copies."""
    assert list(suspicions(f"import os, subprocess, sys\n{call}\n", SCRIPTS)) == []


@pytest.mark.parametrize(
    ("call", "does"),
    [
        ('subprocess.run(["timeout", "0.7", sys.executable, "climb.py"])', "ends a program at a time"),
        ('os.system("timeout -k 5 0.3s python climb.py > log")', "ends a program at a time"),
        ('subprocess.run(["env", "-i", "LANG=C", sys.executable, "words.py"])', "starts Python without PYTHONHASHSEED"),
        ('os.system("env -u PYTHONHASHSEED python3 words.py")', "starts Python without PYTHONHASHSEED"),
        ('os.system("env A=1 shuf a")', "draws random numbers (coreutils)"),
        # it ends after the run, has the variable, or is cleared of nothing
        ('subprocess.run(["timeout", "2h", sys.executable, "climb.py"])', ""),
        ('subprocess.run(["env", "-i", "PYTHONHASHSEED=1", sys.executable, "words.py"])', ""),
        ('os.system("env A=1 python words.py")', ""),
    ],
)
def test_what_starts_a_program_under_other_terms(call: str, does: str) -> None:
    """A limit of time that the run is longer than, and an environment without the seed of hashes."""
    source = f"import os, subprocess, sys\n{call}\n"
    found = rank_causes(evidence(source, scripts={}, a=record(duration=3.0), b=record(duration=3.0)))
    assert [each.where for each in found] == (["train.py:2"] if does else [])
    assert not does or does in found[0].what


def test_what_nobody_can_read_comes_with_the_file_that_differs() -> None:
    """A built program is named last of all, and before other possible causes where its words name the result."""
    source = "import subprocess, threading\nthreading.Thread()\nsubprocess.run(['./simulate', 'walk.csv'])\n"
    named = rank_causes(evidence(source, scripts={}))
    assert [cause.where for cause in named] == ["train.py:2", "train.py:3"]
    left = [(Output(path="walk.csv", size=2, sha256=sign * 64, change="created"),) for sign in "12"]
    named = rank_causes(evidence(source, scripts={}, a=record(outputs=left[0]), b=record(outputs=left[1])))
    assert named[0].where == "train.py:3"
    assert "walk.csv, which differs" in named[0].what


def test_nothing_is_suspected_where_something_is_proven() -> None:
    """A program that draws is not the cause of runs that are equal with the clock fixed."""
    named = rank_causes(evidence("import os, time\nos.system('shuf a')\ntime.time()\n", proven=("clock",)))
    assert [cause.where for cause in named if cause.weight > 30] == ["train.py:3"]


def test_a_program_with_the_same_output_in_runs_that_differ_is_cleared() -> None:
    """Its output is known, and nothing of it differs; that of one that prints nothing says nothing."""
    source = "import subprocess\nsubprocess.run(['./sim'], capture_output=True)\n"
    assert rank_causes(evidence(source, scripts={}))
    assert rank_causes(evidence(source, scripts={}, same_output=("/workspace/train.py:2",))) == ()


def test_a_command_with_a_name_is_named_where_it_is_made() -> None:
    """With the line that starts it; also a list of words."""
    for made in ("('sort', '-R', 'a')", "'sort -R a'"):
        source = f"import subprocess\nCOMMAND = {made}\nsubprocess.check_output(COMMAND)\n"
        assert rank_causes(evidence(source))[0].where == "train.py:2, train.py:3"


def test_a_script_is_named_with_the_line_that_draws() -> None:
    """If one line of one script alone has it."""
    source = "import subprocess\nsubprocess.run(['sh', 'pick.sh', '9'], check=True)\n"
    once, twice = "set -eu\n# sort -R\nsort -R a | head -n $1\n", "sort -R a\nsort -R b\n"
    for script, where in ((once, "train.py:2, pick.sh:3"), (twice, "train.py:2")):
        assert rank_causes(evidence(source, scripts={"pick.sh": script}))[0].where == where


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ('SEED="$(date +%s%N)"', "date +%s%N"),
        (': "${SEED:=$(date +%s)}"', "date +%s"),
        ("export SEED=`date +%N`", "date +%N"),
        ('python train.py --run "$(uuidgen)"', "uuidgen"),
        ("WORK=$(mktemp -d /tmp/bag.XXXXXXXX)", "mktemp -d /tmp/bag.XXXXXXXX"),
        ('echo "started $(date)"', ""),
        ("# SEED=$(date +%s)", ""),
        ("DAY=$(date -d @0 +%F)", ""),
    ],
)
def test_times_that_a_script_keeps(line: str, taken: str) -> None:
    """They are named with their line in the script; what is only printed is none."""
    source = "import subprocess\nsubprocess.run(['sh', 'run.sh'], check=True)\n"
    causes = rank_causes(evidence(source, scripts={"run.sh": f"set -eu\n{line}\n"}))
    assert [(f"'{taken}' in run.sh:2" in each.what, each.where) for each in causes] == (
        [(True, "run.sh:2, train.py:2")] if taken else []
    )


def test_a_program_that_draws_is_found_by_what_it_was_given(tmp_path: Path) -> None:
    """Though no source shows which script it runs. One with the same output is not named, nor one without draws."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sample.sh").write_text("grep -v '#' $1 | sort -R | head -n 3\n")
    (tmp_path / "tools" / "head.sh").write_text("head -n 3 $1\n")

    def made(call: str, *values: str) -> str:
        runs = [
            Ran(
                record=record(
                    processes=(
                        process(
                            asked=(
                                Asked(suspect="programs", call=call, file="a.py", line=1, place="a.py:1", values=value),
                            )
                        ),
                    )
                )
            )
            for value in values
        ]
        session = SimpleNamespace(plan=SimpleNamespace(request=SimpleNamespace(project=tmp_path)))
        laboratory: Any = SimpleNamespace(session=session, pair=lambda: runs)
        return drawing_program(laboratory)

    assert made("sh tools/sample.sh a.tsv", "aa", "bb") == "sh tools/sample.sh a.tsv"
    assert made("sh tools/sample.sh a.tsv", "aa", "aa") == ""
    assert made("sh tools/head.sh a.tsv", "aa", "bb") == ""
    assert made("sh 'tools/sample.sh", "aa", "bb") == ""
    assert made("") == ""


def test_which_programs_gave_the_same() -> None:
    """Outputs are compared by their digests; an empty one clears nobody."""

    def ran(values: str) -> Ran:
        lines = [
            Asked(
                suspect="programs",
                call="p",
                file="train.py",
                line=n,
                place=f"/workspace/train.py:{n}",
                given="1",
                values=v,
            )
            for n, v in ((1, values), (2, "00ff00ff"), (3, "00000000"))
        ]
        return Ran(record=record(processes=(process(asked=tuple(lines)),)))

    differs, same = differing_programs([ran("aa"), ran("bb")])
    assert ([each.place for each in differs], same) == (["/workspace/train.py:1"], ("/workspace/train.py:2",))


def test_a_program_whose_output_differed_has_the_remedy_of_its_language() -> None:
    """What is known of the program by an experiment, and what is known of its language, is one cause."""
    source = "import subprocess\nsubprocess.run(['Rscript', 'sim.R'], capture_output=True)\n"
    programs = (Culprit(suspect="programs", place="/workspace/train.py:2", call="Rscript sim.R"),)
    (cause,) = rank_causes(evidence(source, programs=programs))
    assert "another one in each run" in cause.what
    assert "set.seed" in cause.attempt


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('"xargs -P 4 -n 1 python dock.py < l.txt >> r.csv", shell=True', "xargs -P 4"),
        ('["xargs", "-n1", "-P8", "./dock", "a"]', "xargs -n1 -P8"),
        ('["sh", "-c", "cat l | xargs --max-procs=0 dock"]', "xargs --max-procs=0"),
        ('"ls | parallel ./dock {} >> r.csv", shell=True', "parallel"),
        ('["make", "-C", "sub", "-j4", "all"]', "make -C sub -j4"),
        ('"make --jobs all", shell=True', "make --jobs"),
        ('"for i in 1 2; do dock $i >> r & done; wait", shell=True', "dock $i >> r &"),
        ('"a.out 1 > x & a.out 2 > y & wait", shell=True', "a.out 1 > x &"),
        ('"xargs -P 1 dock < l", shell=True', ""),
        ('"xargs -n 4 dock -P < l", shell=True', ""),
        ('"make -j1 all && make install", shell=True', ""),
        ('"make test --jobs=1", shell=True', ""),
        ('"dock > log 2>&1 && ls &> out", shell=True', ""),
        ('"parallel -j 1 dock ::: a b", shell=True', ""),
        ('"curl http://x/?a=1&b=2; echo parallel", shell=True', ""),
        ('"dock a 2>&1 & wait", shell=True', "dock a 2>&1 &"),
        ('["bash", "-c", "tee >(dock b) < a > c"]', "tee >(dock b"),
        ('["bash", "-c", "diff <(sort a) b > (c)"]', ""),
    ],
)
def test_programs_that_a_shell_starts_at_once(command: str, said: str) -> None:
    """By the options of what starts them, and by ``&``; of one job at a time nothing is said."""
    source = f"import subprocess\nsubprocess.run({command})\n"
    found = [each.what for each in rank_causes(evidence(source, scripts={})) if "concurrently" in each.what]
    assert [text.partition(" starts ")[0] for text in found] == ([repr(said)] if said else [])


def test_the_line_that_has_the_words_is_named() -> None:
    """Not the one that hands them to a shell."""
    source = "import subprocess\nwork = f'xargs -P 4 {program} < l'\n\nsubprocess.run(['sh', '-c', work])\n"
    assert [each.where for each in rank_causes(evidence(source, scripts={}))] == ["train.py:2"]


def test_words_of_a_shell() -> None:
    """Programs, without assignments, redirections and what starts another one."""
    found = shell_commands("A=1 nice -n5 ./a x > f 2>&1 && for i in 1; do b \"$i | c\"; done | xargs d\ne 'f; g'")
    assert [words for words in found if words[0] in "./a b d e"] == [
        ("./a", "x"),
        ("b", "$i | c"),
        ("d",),
        ("e", "f; g"),
    ]


def test_which_files_are_scripts() -> None:
    """Paths of the project in command lines, for a shell too; no data and no Python."""
    source = "import subprocess\nsubprocess.run('Rscript tools/sim.R data.csv | bash -c \"sh x.sh\"', shell=True)\n"
    assert scripts_named(source) == ["tools/sim.R", "x.sh"]


def test_a_gpu_that_no_framework_computes_on() -> None:
    """Whoever launches kernels himself is told so, behind all else that was found; a framework's are made to repeat."""
    kernels = "import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n"
    (cause,) = rank_causes(
        evidence(kernels, scripts={}, a=record(gpus="1", processes=()), b=record(gpus="1", processes=()))
    )
    assert cause.what.startswith("what the program computes on the GPU: no framework was loaded")
    both = {"a": record(gpus="1", processes=()), "b": record(gpus="1", processes=())}
    found = rank_causes(evidence(f"{kernels}import os\nos.urandom(4)\n", scripts={}, **both))
    assert [each.area for each in found][-1] == "gpu"
    assert len(found) > 1
    assert rank_causes(evidence(kernels, scripts={})) == ()


_C = """// time(0)
int main(int argc, char **argv) {
    if (find("-seed"))
        seed = atoi(argv[1]);
    else
        seed = (unsigned) time(NULL);
    for (a = 0; a < n; a++) pthread_create(&pt[a], NULL, Train, (void *)a);
}
"""


@pytest.mark.parametrize(
    "command", [("bash", "demo.sh"), ("sh", "-e", "demo.sh"), ("make", "vectors"), ("./build/glove",)]
)
def test_a_run_that_is_a_shells_names_its_built_programs(command: tuple[str, ...]) -> None:
    """Seeds and threads are found in the sources of what a script or a makefile starts, by file and line."""
    scripts = {
        "demo.sh": "make\nbuild/glove -iter 3 < x > y\n",
        "Makefile": "BIN = ./build\nvectors:\n\t@$(BIN)/glove > $@\n",
        "src/glove.c": _C,
        "src/other.c": "int main() { srand(time(0)); }",
    }
    first, second = rank_causes(evidence("", scripts=scripts, a=record(command=command), b=record(command=command)))
    assert (first.where, second.where) == ("src/glove.c:6", "src/glove.c:7")
    assert "draws random numbers from another seed in each run ('seed = (unsigned) time('" in first.what
    assert first.attempt == "give it a fixed seed: -seed N"
    assert "runs threads" in second.what


def test_a_run_that_is_python_or_whose_sources_show_nothing_names_no_program() -> None:
    """Python's own programs have causes of their own; a program whose sources are known and quiet is none."""
    quiet = {"demo.sh": "./fit data\n", "fit.c": "int main() { srand(7); }"}
    assert list(of_command(("bash", "demo.sh"), quiet)) == []
    for command in (("python3.11", "./x"), ("train.py",), ("-m", "train"), ()):
        assert list(of_command(command, quiet)) == []
    (unread,) = of_command(("bash", "demo.sh"), {"demo.sh": quiet["demo.sh"]})
    assert not unread.draws


def _left(value: str) -> tuple[Output, ...]:
    return (Output(path="w.bin", size=2, sha256=value * 64, change="created"),)


def test_a_time_in_one_file_does_not_explain_another() -> None:
    """``--ignore stderr`` helps nobody whose weights differ: what may explain all comes first."""
    text = TextDifference(path="stderr", line=3, before="at 05:16:03", after="at 05:16:04")
    (alone,) = rank_causes(evidence("", texts=[text]))
    other = evidence(
        "import subprocess\nsubprocess.run(['./sim'])\n", scripts={}, texts=[text], a=record(outputs=_left("1"))
    )
    named = rank_causes(replace(other, b=record(outputs=_left("2"))))
    assert alone.weight == 60
    assert [each.where for each in named] == ["train.py:2", "stderr:3"]


def test_a_seed_that_is_printed_is_named() -> None:
    """A line shows that the seed is another one, whoever drew it; equal seeds, and the word alone, show nothing."""

    def causes(before: str, after: str) -> list[str]:
        text = TextDifference(path="stdout", line=1, before=before, after=after)
        return [each.what.partition(":")[0] for each in rank_causes(evidence("", texts=[text]))]

    assert causes("Using random seed 1795902399", "Using random seed 1795902400") == [
        "stdout shows another seed in each run"
    ]
    assert causes("Random seed: 7, loss 1", "Random seed: 9, loss 2") == ["stdout shows another seed in each run"]
    assert causes("seed 7 loss 0.25", "seed 7 loss 0.26") == []
    assert causes("seeds 7", "seeds 8") == []


def test_programs_that_are_begun_at_once_are_known() -> None:
    """Those that are no Python: of these no run varies who comes first."""
    source = "import subprocess\nsubprocess.run('for n in 1 2; do echo $n >> f & done; wait', shell=True)\n"
    assert [*begun_at_once({"t.py": source}, {}, ["python", "t.py"])] == [("echo $n >> f &", "t.py:2")]
    ones = "import subprocess\nsubprocess.run('python a.py & python b.py & wait; echo 1 && ls', shell=True)\n"
    assert [*begun_at_once({"t.py": ones}, {}, ["python", "t.py"])] == []
    script = {"run.sh": "ls\nseq 9 | xargs -P 4 echo\n"}
    assert [*begun_at_once({}, script, ["sh", "run.sh"])] == [("xargs -P 4", "run.sh:2")]
    given = "import subprocess\nsubprocess.run(['sh', 'run.sh'])\n"
    assert [*begun_at_once({"t.py": given}, script, ["python", "t.py"])] == [("xargs -P 4", "run.sh:2")]
