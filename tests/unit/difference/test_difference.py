"""Two records compared: what is named, in which order, and that nothing is invented."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.cluster.rank import Rank
from envbuild.difference.compare import NOT_COMPARED, compare
from envbuild.difference.finding import NOWHERE, Context, PrintedLine, Tree
from envbuild.difference.results import results
from envbuild.record.model import Folder, Git, LockFacts, Output, Record, Script, StandardInput
from envbuild.record.printed import Printed
from envbuild.record.processes import Parameter, ParameterSet, ReadFile
from tests.support.hosts import gpu, host
from tests.support.locks import small_lock
from tests.support.records import A, B, other_results, parameters, process, record, sha, verdict


def sentences(a: Record, b: Record, **known: Any) -> list[str]:
    """The causes, first to last."""
    return [finding.sentence for finding in compare(a, b, Context(**known)).causes]


def test_the_classic_story() -> None:
    """Images were added and a default was changed: both are named, first, before all that merely goes with them."""
    tree = Tree(added=3412, names={"added": ("cats/001.png", "cats/002.png")})
    text = "import x\nparser.add_argument('--learning_rate', default={})\n"
    b = other_results(
        inputs={"data": sha("f")},
        parameters=parameters(learning_rate=0.01, epochs=3),
        script=Script(path="train.py", sha256=sha("d")),
        modules=(ReadFile(path="train.py", size=9, sha256=sha("d")), record().modules[1]),
        lock=LockFacts(file="pylock.digits.toml", sha256=sha("e")),
        image=sha("f"),
        git=Git(commit="e" * 40, branch="main", dirty=True, diff_sha256=sha("d"), untracked=0),
    )
    known = {
        "trees": {"data": tree}, "texts": {sha("3"): text.format(0.1), sha("d"): text.format(0.01)},
        "lock_a": small_lock(), "lock_b": small_lock(),
    }  # fmt: skip
    found = compare(record(), b, Context(**known))
    assert [finding.sentence for finding in found.causes] == [
        "data/: 3,412 files added since A, 0 changed; first: cats/001.png",
        "learning_rate: 0.1 (default) → 0.01 (default)",
        "train.py: 1 line changed, line 2",
    ]
    assert found.causes[2].details == (
        "- parser.add_argument('--learning_rate', default=0.1)",
        "+ parser.add_argument('--learning_rate', default=0.01)",
    )
    assert [(finding.what, finding.follows) for finding in found.others] == [
        ("image", "lock"),
        ("git, not committed", "script, modules or configs"),
        ("pylock.digits.toml", "what differs in it"),
    ]
    assert [finding.sentence for finding in found.results] == [
        "val_accuracy: 0.9697 → 0.9471",
        "model.npz: 1 of 1 tensor differs: kernel",
    ]
    assert found.same == (
        "command", "modules", "configs", "seeds", "switches", "environment", "options", "packages", "host", "GPU"
    )  # fmt: skip
    assert found.unknown == ("variable HF_TOKEN, which is masked",)
    assert (found.outcome, found.verdict) == ("different", "")


def test_an_argument_explains_the_command_line() -> None:
    """A parameter that was typed is the cause; that the command line differs is only its other face."""
    b = other_results(
        parameters=parameters("command line", learning_rate=0.1, epochs=4),
        command=("python", "train.py", "--epochs=4", "--learning_rate=0.1"),
    )
    found = compare(record(), b)
    assert [finding.sentence for finding in found.causes] == ["epochs: 3 (default) → 4 (argument)"]
    assert [(finding.sentence, finding.weight) for finding in found.others] == [
        ("command: python train.py → python train.py --epochs=4 --learning_rate=0.1", 82),
        ("learning_rate: 0.1 (default) → 0.1 (argument)", 0),
    ]


GPU = record().host


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        (
            {"host": host([gpu("NVIDIA H100 80GB HBM3", memory=81559)])},
            "gpu.model: NVIDIA H200 → NVIDIA H100 80GB HBM3 (another GPU: other kernels, other bits)",
        ),
        (
            {"host": host([gpu()], driver="570.86.15")},
            "gpu.driver: 580.159.04 → 570.86.15 (it compiles kernels: other bits possible)",
        ),
        (
            {"host": host([gpu(), gpu()])},
            "gpus: 1 × NVIDIA H200 → 2 × NVIDIA H200 (batches and sums are split by it: other bits)",
        ),
        ({"host": host([gpu()], kernel="6.1.0")}, "host kernel: 6.8.0-45-generic → 6.1.0"),
        ({"script": Script(path="train.py", sha256=sha("d"))}, f"train.py: sha256 {'3' * 12}… → {'d' * 12}…"),
        ({"processes": (process(seed=43, generators={"numpy": 43, "torch": 43}),)}, "seed: 42 → 43"),
        (
            {
                "processes": (
                    process(
                        switches=[
                            {"name": "torch.use_deterministic_algorithms", "wanted": True, "found": False, "ok": True}
                        ]
                    ),
                )
            },
            "torch.use_deterministic_algorithms: true → false",
        ),
        (
            {"environment": {"OMP_NUM_THREADS": "4", "HF_TOKEN": "***"}},
            "OMP_NUM_THREADS: 2 → 4 (changes how work is split: other bits)",
        ),
        ({"environment": {"OMP_NUM_THREADS": "2"}}, "HF_TOKEN: *** → (not there)"),
        (
            {"options": msgspec.structs.replace(record().options, controls=False)},
            "option controls: on → off (seeds and deterministic operations, on or off)",
        ),
        (
            {"input_changes": ("data: 1 file changed",)},
            "data during run B: (not there) → changed (data: 1 file changed)",
        ),
        ({"verified": "no"}, "verified: yes → no (differences from the lock)"),
        (
            {"image": sha("d")},
            "image: 222222222222… → dddddddddddd… "
            "(of one lock: another envbuild made guard, hook or layout otherwise)",
        ),
    ],
)  # fmt: skip
def test_one_difference_is_named(changes: dict[str, Any], first: str) -> None:
    """One cause, in one sentence, is all that is reported."""
    found = compare(record(), other_results(**changes))
    assert found.causes[0].sentence == first
    assert found.outcome == "different"


def test_packages_of_two_locks() -> None:
    """Frameworks come before other wheels, a patch version after a minor one, Debian packages by what they compute."""
    wheel, deb = "{}-py3-none-any.whl".format, "{}_amd64.deb".format
    a = small_lock(
        {wheel("numpy-2.4.5"): b"a", wheel("tool-1.0"): b"b", wheel("torch-2.12.0"): b"c"},
        {deb("libc6_2.36-9"): b"d", deb("tzdata_2026a"): b"e"},
    )
    b = small_lock(
        {wheel("numpy-2.4.6"): b"f", wheel("tool-2.0"): b"g", wheel("torch-2.13.0"): b"h"},
        {deb("libc6_2.36-10"): b"i", deb("tzdata_2026b"): b"j"},
    )
    a = msgspec.structs.replace(a, frameworks={"torch": "2.12.0"})
    other = other_results(lock=LockFacts(file="pylock.t.toml", sha256=sha("e")), image=sha("f"))
    assert sentences(record(), other, lock_a=a, lock_b=b) == [
        "torch: 2.12.0 → 2.13.0", "tool: 1.0 → 2.0", "numpy: 2.4.5 → 2.4.6", "libc6: 2.36-9 → 2.36-10",
        "tzdata: 2026a → 2026b",
    ]  # fmt: skip
    assert sentences(record(), other, lock_a=a) == [
        f"pylock.digits.toml / pylock.t.toml: {'1' * 12}… → {'e' * 12}… "
        "(the lock of B was not kept: its packages cannot be compared)"
    ]


def test_determinism_of_two_locks() -> None:
    """Seed, level and threads of the lock come before packages, and the file's own digest reports nothing more."""
    a = small_lock()
    b = msgspec.structs.replace(a, determinism=msgspec.structs.replace(a.determinism, level="seeds", seed=1, threads=4))
    other = other_results(lock=LockFacts(file="pylock.digits.toml", sha256=sha("e")), image=sha("f"))
    assert sentences(record(), other, lock_a=a, lock_b=b) == [
        "determinism.seed: 0 → 1 (the root of all seeds)",
        "determinism.level: ops → seeds (which switches are set)",
        "determinism.threads: 2 → 4 (changes how work is split: other bits)",
    ]


def test_variants_of_one_spec() -> None:
    """That the locks are of two variants comes before all that follows from it."""
    a = msgspec.structs.replace(small_lock({"a-1.0-py3-none-any.whl": b"a"}, name="t-cpu"), variant="cpu")
    b = msgspec.structs.replace(small_lock({"a-2.0-py3-none-any.whl": b"b"}, name="t-cuda12"), variant="cuda12")
    b = msgspec.structs.replace(b, determinism=msgspec.structs.replace(b.determinism, seed=1))
    other = other_results(lock=LockFacts(file="pylock.t-cuda12.toml", sha256=sha("e")), image=sha("f"))
    assert sentences(record(), other, lock_a=a, lock_b=b) == [
        "variant: cpu → cuda12 (another variant of the spec)",
        "determinism.seed: 0 → 1 (the root of all seeds)",
        "a: 1.0 → 2.0",
    ]


def test_fingerprints() -> None:
    """A part that both machines computed, with other numbers, is a cause; a part of one machine alone is none."""
    known = {"fingerprint_a": {"libm": "a", "x": "b"}, "fingerprint_b": {"libm": "c", "y": "d"}}
    assert sentences(record(), other_results(), **known) == [
        "fingerprint libm: a… → c… (the same computation gives other numbers)"
    ]


def test_equal_runs_have_no_causes() -> None:
    """Nothing is invented where nothing differs; times and identities are no difference."""
    found = compare(record(), record(B, start="2027-01-01T00:00:00.000Z", duration=1.0))
    assert (found.outcome, found.verdict) == ("equal", "bit-identical (1 output, 1 metric)")
    assert (found.results, found.causes, found.others) == ((), (), ())


def test_other_results_without_a_cause() -> None:
    """Where the records are equal and the results are not, that is what is reported."""
    found = compare(record(), other_results())
    assert found.causes == ()
    assert found.verdict == (
        "nothing recorded differs: a nondeterministic operation, or what no record holds, see envbuild verify"
    )


def test_other_results_where_no_inputs_are_declared() -> None:
    """Data that nobody declared is not recorded: that is reported first, since verify would find such runs equal."""
    found = compare(record(inputs={}), other_results(inputs={}))
    assert found.verdict == (
        "nothing recorded differs: other data, which is not recorded since no inputs are declared "
        "(inputs: [data] in the spec), or a nondeterministic operation, see envbuild verify"
    )
    assert "data" not in found.same
    assert found.unknown[0] == "data (no inputs are declared; to have it compared: inputs: [data] in the spec)"


CLEAN = Git(commit="e" * 40, branch="main", dirty=False, diff_sha256="", untracked=0, changed=())


def edited(*names: str) -> Git:
    """The same commit with changes to files."""
    return msgspec.structs.replace(CLEAN, dirty=True, diff_sha256=sha("d"), changed=names)


def test_a_file_that_only_git_knows_of() -> None:
    """Data that git tracks and nobody declared is named, before what an earlier run left; results are no cause."""
    (output,) = other_results().outputs
    found = (msgspec.structs.replace(output, change="changed"),)
    names = ("more/x.csv", "model.npz", "pylock.digits.toml", "Dockerfile.digits", "train.py")
    b = other_results(git=edited(*names), outputs=found)
    first, second = sentences(record(git=CLEAN), b)
    assert first == "git, not committed: clean → changes dddddddddddd… (more/x.csv)"
    assert second.startswith("model.npz at the start: (not there) → there before")
    only_results = compare(record(git=CLEAN), other_results(git=edited("model.npz"), outputs=found)).causes
    assert [(each.area, each.weight) for each in only_results] == [("results", 32), ("git", 10)]
    lock = msgspec.structs.replace(small_lock(), resolution={"spec.yaml": sha("1")})
    elsewhere = other_results(git=edited("data/x.csv", "spec.yaml"))
    (declared,) = compare(record(git=CLEAN), elsewhere, Context(lock_a=lock, lock_b=lock)).causes
    assert (declared.change, declared.weight) == ("clean → changes dddddddddddd…", 10)


def test_files_of_other_commits() -> None:
    """What two commits differ in is named; a script that explains them makes them a mere consequence, as before."""
    other = msgspec.structs.replace(CLEAN, commit="f" * 40)
    (first,) = compare(record(git=CLEAN), other_results(git=other), Context(committed=("train.py", "a.csv"))).causes
    assert (first.sentence, first.weight) == ("git commit: eeeeeeeeeeee → ffffffffffff (a.csv)", 47)
    script = Script(path="train.py", sha256=sha("d"))
    found = compare(record(git=CLEAN), other_results(git=other, script=script), Context(committed=("a.csv",)))
    assert [each.what for each in found.causes] == ["train.py"]
    assert [each.what for each in found.others] == ["git commit"]


@pytest.mark.parametrize(
    ("tree", "reported"),
    [
        (Tree(added=3), "3 files added since A, 0 changed"),
        (Tree(changed=1), "1 file changed since A"),
        (Tree(changed=2, removed=1), "2 files changed since A, 1 removed"),
        (Tree(removed=1), "1 file removed since A"),
        (Tree(added=1, removed=1), "1 file added since A, 0 changed, 1 removed"),
        (Tree(), "0 files changed since A"),
    ],
)
def test_files_are_counted_by_what_became_of_them(tree: Tree, reported: str) -> None:
    """No count of nothing but "0 changed" next to files that came."""
    assert sentences(record(), record(B, inputs={"data": sha("e")}), trees={"data": tree}) == [f"data/: {reported}"]


def test_data_that_is_one_file_has_no_names() -> None:
    """It is named as the file that it is."""
    found = sentences(record(), record(B, inputs={"data": sha("e")}), trees={"data": Tree(changed=1, of_one_file=True)})
    assert found == ["data: another content than in A"]


@pytest.mark.parametrize("path", ["executed.ipynb", "metrics.json"])
def test_times_that_a_file_holds_are_a_reason(path: str) -> None:
    """A notebook that ran twice has other bytes: the reader learns that verify compares it without its times."""
    (output,) = other_results().outputs
    notebook = msgspec.structs.replace(output, path=path, tensors={}, content="", sha256=sha("1"))
    found = compare(
        record(outputs=(notebook,)), record(B, outputs=(msgspec.structs.replace(notebook, sha256=sha("2")),))
    )
    assert found.outcome == "different"
    assert found.verdict.startswith(
        f"nothing recorded differs: times that {path} may hold, which envbuild verify leaves out; or "
    )


def test_a_clock_is_no_result() -> None:
    """Metrics of time differ between any two runs."""
    metrics = {**record().metrics, "epoch_time": ((0, 1.0),), "samples_per_second": ((0, 1.0),)}
    assert compare(record(metrics=metrics), record(B)).outcome == "equal"
    assert compare(record(metrics={**metrics, "timeliness": ((0, 1.0),)}), record(B)).outcome == "different"


def test_equal_results_of_runs_that_failed_are_said_to_be_so() -> None:
    """What both left before they failed may be equal for that reason alone."""
    found = compare(record(exit_code=1), record(B, exit_code=1))
    assert found.verdict == "bit-identical (1 output, 1 metric); but both runs failed: exit 1"
    killed = compare(record(exit_code=137, out_of_memory=True), record(B, exit_code=137, out_of_memory=True))
    assert killed.verdict.endswith("; but both runs failed: out of memory")


def test_equal_tensors_in_other_bytes_are_equal() -> None:
    """A file format that keeps the time makes no difference."""
    (output,) = record().outputs
    found = compare(record(), record(B, outputs=(msgspec.structs.replace(output, sha256=sha("d")),)))
    assert (found.outcome, found.verdict) == (
        "equal", "equal tensors (1 output, 1 metric); the files' bytes differ: model.npz"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"state": "refused"}, "B has no results: the guard refused it, nothing was run"),
        ({"state": "running"}, "B has no results: it has not ended, or envbuild was killed"),
        ({"state": "failed", "problem": "no\nnet"}, "B has no results: the engine could not run it: no\\nnet"),
        ({"state": "interrupted"}, "B has no results: it was interrupted before the program started"),
    ],
)
def test_runs_without_results(changes: dict[str, Any], verdict: str) -> None:
    """They are neither equal nor different; what differs in the rest is still reported."""
    found = compare(record(), record(B, verified="no", **changes))
    assert (found.outcome, found.verdict, found.results) == ("unknown", verdict, ())
    assert [finding.what for finding in found.causes] == ["verified"]


def test_what_nobody_could_read_is_not_equal() -> None:
    """Two files without digests are no equal ones; all else may be."""
    closed = Output(path="closed", change="created", size=0, sha256=None)
    one = record()
    both = [record(identity, outputs=(*one.outputs, closed)) for identity in (A, B)]
    found = compare(*both)
    assert (found.outcome, found.results) == ("unknown", ())
    assert found.verdict == "not known: closed could not be read in either run; all else is equal"
    alone = [record(identity, outputs=(closed,), metrics={}) for identity in (A, B)]
    assert compare(*alone).verdict == "not known: closed could not be read in either run; there is nothing else"
    unseen = record(B, outside_left_out=("/opt/w was not looked at: it could not be read",))
    assert "/opt/w was not looked at: it could not be read" in compare(record(), unseen).unknown
    opened = msgspec.structs.replace(closed, sha256=sha("7"))
    assert compare(both[0], record(B, outputs=(*one.outputs, opened))).outcome == "different"


def test_no_outputs_are_no_equal_ones() -> None:
    """Two programs that left nothing cannot be reported to agree; one that failed differs from one that did not."""
    nothing: dict[str, Any] = {"outputs": (), "metrics": {}}
    assert compare(record(**nothing), record(B, **nothing)).verdict == (
        "nothing to compare: neither run left outputs or metrics"
    )
    found = compare(record(**nothing), record(B, exit_code=1, **nothing))
    assert [finding.sentence for finding in found.results] == ["the program: ok → exit 1"]


def test_where_a_packages_own_programs_meet_is_no_cause() -> None:
    """Ray passes ports, times and identities to its workers: they are not reported as causes, nor as the same."""

    def given(program: str, **values: Any) -> tuple[ParameterSet, ...]:
        table = {name: Parameter(value=value, source="command line") for name, value in values.items()}
        return (ParameterSet(parser="argparse", program=program, process="exec raylet.1/x", values=table),)

    one = {"port": 43127, "session": "/tmp/ray/session_2026-11-27_01-38-10_332576_2", "node": "47269bf8cbfa67c5729a"}
    two = {"port": 51234, "session": "/tmp/ray/session_2026-11-27_01-39-11_123456_2", "node": "0cbb62a5c9bf018879e3"}
    meet = compare(
        record(parameters=given("worker.py", level=3, **one)),
        other_results(parameters=given("worker.py", level=4, **two)),
    )
    assert [each.what for each in meet.causes] == ["level"]
    alone = compare(record(parameters=given("worker.py", **one)), other_results(parameters=given("worker.py", **two)))
    assert "parameters" not in alone.same
    assert {each.what for each in alone.others if each.area == "parameters"} == {*one}
    child = [given("mytool", lr_seed=value) for value in (83649172, 12345678)]
    found = compare(record(parameters=child[0]), other_results(parameters=child[1]))
    assert [each.what for each in found.causes] == ["lr_seed"]
    seeds = (
        record(parameters=given("train.py", seed=12345678)),
        other_results(parameters=given("train.py", seed=87654321)),
    )
    assert [each.what for each in compare(*seeds).causes] == ["seed"]


def test_parameters_of_one_run_are_not_reported_twice() -> None:
    """What only one run's parser gave is a difference, and then it is not unknown too."""
    found = compare(record(), other_results(parameters=()))
    assert [each.what for each in found.causes] == ["learning_rate", "epochs"]
    assert not any("parameters" in phrase for phrase in found.unknown)
    bare = compare(record(), other_results(parameters=(), modules=()))
    assert bare.unknown[0] == "parameters (recorded only in A)"


def test_what_both_lack_is_not_equal() -> None:
    """An old record knows less: that is reported, and neither "same" nor a cause."""
    bare: dict[str, Any] = {
        "git": None, "host": None, "processes": (), "parameters": (), "modules": (), "configs": (), "objects": (),
    }  # fmt: skip
    found = compare(record(**bare), other_results(**bare))
    assert found.causes == ()
    assert found.same == ("data", "command", "script", "environment", "options", "lock", "image")
    assert found.unknown == (
        "parameters (no parser was seen in either)",
        "imported modules and configuration files (not recorded in A and B)",
        "git (neither was run in a repository)",
        "seeds and switches (no Python process is recorded in A and B)",
        "variable HF_TOKEN, which is masked",
        "host",
    )


RESULTS = {
    "outputs",
    "outside",
    "deleted",
    "folders",
    "metrics",
    "printed",
    "exit_code",
    "out_of_memory",
    "timed_out",
    "state",
    "problem",
}
CHANGED: dict[str, Any] = {
    "lock": LockFacts(file="pylock.digits.toml", sha256=sha("e")),
    "image": sha("e"),
    "engine": {"name": "Podman"},
    "command": ("python", "train.py", "-v"),
    "directory": "/workspace/sub",
    "script": Script(path="train.py", sha256=sha("e")),
    "standard_input": StandardInput(kind="file", size=3, sha256=sha("e")),
    "environment": {"OMP_NUM_THREADS": "3", "HF_TOKEN": "***"},
    "options": msgspec.structs.replace(record().options, network="bridge"),
    "inputs": {"data": sha("e")},
    "input_changes": ("data: 1 file changed",),
    "layers": "changed",
    "git": Git(commit="f" * 40, branch="main", dirty=False, diff_sha256="", untracked=0),
    "gpus": "2",
    "rank": Rank(launcher="Slurm", rank=1, world=4),
    "emulator": f"qemu-user-static 1:7.2 sha256:{sha('e')}",
    "host": host([gpu()], memory=1),
    "verified": "no",
    "verdict": verdict(gpu={"devices": [{"name": "T4"}]}),
    "processes": (process(seed=1),),
    "parameters": parameters(learning_rate=0.2, epochs=3),
    "configs": (),
    "modules": record().modules[:1],
    "reads": (ReadFile(path="params.txt", size=3, sha256=sha("e")),),
    "objects": (),
    "nccl": {"graph": sha("e"), "topology": sha("4")},
}


def test_every_field_of_a_record_is_compared_or_left_out_on_purpose() -> None:
    """A new field of the record needs a decision here: a cause, a result, or neither."""
    fields = {field.name for field in msgspec.structs.fields(Record)}
    among_copies = {"read_otherwise"}  # compared between runs of ``verify`` (test_run_reads.py)
    assert fields == {*CHANGED, *RESULTS, *NOT_COMPARED, *among_copies}


def test_printed_lines_are_results() -> None:
    """Other lines are other results; runs that only print are compared by it, and nothing is claimed without it."""
    one = {"stdout": Printed(lines=2, sha256=sha("1"), unordered=sha("2"))}
    other = {"stdout": Printed(lines=3, sha256=sha("3"), unordered=sha("4"))}
    found = compare(record(printed=one), record(B, printed=other))
    assert (found.outcome, [each.sentence for each in found.results]) == (
        "different", ["standard output: 2 lines → 3 lines"],
    )  # fmt: skip
    line = PrintedLine(number=2, before="loss 0.5", after="")
    found = compare(record(printed=one), record(B, printed=other), Context(lines={"stdout": line}))
    assert [each.sentence for each in found.results] == ["standard output, line 2: loss 0.5 → (not there)"]
    only = {"outputs": (), "metrics": {}}
    found = compare(record(printed=one, **only), record(B, printed=one, **only))
    assert (found.outcome, found.verdict) == ("equal", "bit-identical (2 printed lines)")
    found = compare(record(printed=one, **only), record(B, printed=None, **only))
    unknown = "printed lines (not recorded; envbuild verify compares them)"
    assert (found.outcome, found.verdict) == ("unknown", f"not known: {unknown}")
    found = compare(record(printed=one), record(B, printed=None))
    assert (found.outcome, found.verdict) == ("equal", "bit-identical (1 output, 1 metric)")
    assert unknown in found.unknown


def test_lines_behind_the_bound_are_not_called_equal() -> None:
    """Other bytes there may be times, and may be results: equal files do not make the runs equal."""
    one, other = ({"stdout": Printed(lines=2, sha256=sha("1"), rest_bytes=9, rest=sha(sign))} for sign in "23")
    found = compare(record(printed=one), record(B, printed=other))
    bound = "lines of standard output beyond those that a run's record has (envbuild verify compares all)"
    assert (found.outcome, found.verdict) == ("unknown", f"not known: {bound}; all else is equal")
    assert bound in found.unknown
    assert compare(record(printed=one), record(B, printed=one)).outcome == "equal"


@pytest.mark.parametrize("name", CHANGED)
def test_each_field_is_named(name: str) -> None:
    """Any single field that differs is found, and there is nothing else."""
    nccl = {"graph": sha("c"), "topology": sha("d")}
    found = compare(record(nccl=nccl), record(B, **{"nccl": nccl, name: CHANGED[name]}))
    assert found.causes + found.others
    assert not found.causes or not found.others or found.causes[0].weight >= found.others[0].weight


def test_nccls_graph_is_a_cause_and_its_topology_none() -> None:
    """The order of sums follows the channels; links may be numbered otherwise. What one run lacks is not known."""
    one, other = {"graph": sha("c"), "topology": sha("d")}, {"graph": sha("e"), "topology": sha("e")}
    found = compare(record(nccl=one), other_results(nccl=one | {"topology": sha("e")}))
    assert ["NCCL" in each.what for each in found.causes] == [False] * len(found.causes)
    assert "NCCL's topology" in [each.what for each in found.others]
    found = compare(record(nccl=one), other_results(nccl=other))
    assert "NCCL's graph" in [each.what for each in found.causes]
    assert "NCCL" in compare(record(nccl=one), record(B, nccl=one)).same
    lacking = compare(record(nccl=one), record(B))
    assert "NCCL's graph, topology (recorded in one of the runs only)" in lacking.unknown


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all texts, numbers and truths in nested tables and lists."""
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in leaves(part, (*path, key))]
    if isinstance(value, list | tuple):
        return [leaf for place, part in enumerate(value) for leaf in leaves(part, (*path, place))]
    return [path]


TABLE = msgspec.to_builtins(record())
QUIET = {*NOT_COMPARED, "layers", "outputs", "verdict", "problem", "state", "out_of_memory", "timed_out", "exit_code"}
UNSEEN = {
    "free", "pid", "parent", "arguments", "left_out", "format", "wanted", "ok", "locked", "size", "parser", "program",
    "containers", "process", "verification",
}  # fmt: skip
"""Parts whose difference reports nothing by itself, or is reported by its neighbour."""
LEAVES = [
    leaf
    for leaf in leaves(TABLE)
    if leaf[0] not in QUIET
    and not UNSEEN.intersection(map(str, leaf))
    and leaf not in (("objects", 0, "path"), ("standard_input", "kind"))
]


def other_value(value: Any, digits: str) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None:
        return None
    if len(value) in (32, 64) and set(value) <= set("0123456789abcdef"):
        return (digits * 64)[: len(value)] if value[0] != digits[0] else ("e0" * 32)[: len(value)]
    return {"none": "bridge", "rw": "ro", "yes": "no", "default": "command line"}.get(value, f"{value}{digits}")


def put(table: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with one leaf replaced."""
    if not path:
        return value
    if isinstance(table, dict):
        return {**table, path[0]: put(table[path[0]], path[1:], value)}
    return [put(part, path[1:], value) if place == path[0] else part for place, part in enumerate(table)]


@settings(max_examples=300, deadline=None)
@given(leaf=st.sampled_from(LEAVES), digits=st.sampled_from(["0", "7", "d"]), with_results=st.booleans())
def test_any_single_leaf_is_named_first(leaf: tuple[Any, ...], digits: str, with_results: bool) -> None:
    """Whatever one thing differs in a record, it is named, first, and nothing that is equal is named with it."""
    value = TABLE
    for key in leaf:
        value = value[key]
    replaced = other_value(value, digits)
    if replaced == value:
        return
    b = msgspec.convert({**put(TABLE, leaf, replaced), "id": B}, Record)
    if with_results:
        b = msgspec.structs.replace(b, metrics={"loss": ((0, 1.0),)})
    found = compare(record(), b)
    named = [*found.causes, *found.others] or list(found.results)
    assert named, leaf
    assert len({finding.area for finding in named}) == 1, (leaf, named)


@settings(max_examples=100, deadline=None)
@given(dropped=st.sets(st.sampled_from(sorted(CHANGED)), max_size=8))
def test_equal_records_have_no_findings(dropped: set[str]) -> None:
    """However much or little is recorded: a run compared with its equal shows nothing."""
    changes = {name: CHANGED[name] for name in dropped}
    found = compare(record(A, **changes), record(B, **changes))
    assert (found.causes, found.others, found.results) == ((), (), ())


def test_the_output_of_one_run_only() -> None:
    """A file that only one run left is a result that differs."""
    more = Output(path="log\n.txt", change="created", size=1, sha256=sha("e"))
    found = compare(record(), record(B, outputs=(*record().outputs, more), deleted=("old",)))
    assert [finding.sentence for finding in found.results] == ["log\\n.txt: only in B", "old: kept → deleted"]


def test_other_standard_input() -> None:
    """A file counts by its content, if the program read of it; what went through a pipe nobody knows."""
    file, other, pipe, terminal = (
        StandardInput(kind="file", size=3, sha256=sha("e")),
        StandardInput(kind="file", size=3, sha256=sha("f")),
        StandardInput(kind="pipe"),
        StandardInput(kind="terminal"),
    )
    found = compare(record(standard_input=file), other_results(standard_input=other))
    assert ([each.sentence for each in found.causes], found.verdict) == (
        ["standard input: a file of 3 bytes, sha256 eeeeeeeeeeee… → a file of 3 bytes, sha256 ffffffffffff…"], "",
    )  # fmt: skip
    assert "standard input" in compare(record(standard_input=file), other_results(standard_input=file)).same
    possible = compare(record(), other_results(standard_input=pipe))
    assert [each.sentence for each in possible.causes] == ["standard input: none → a pipe"]
    assert possible.verdict.startswith("nothing recorded is reason enough: ")
    unread = [StandardInput(kind="file", size=3, sha256=sha(each), unread=True) for each in "ef"]
    possible = compare(record(standard_input=unread[0]), other_results(standard_input=unread[1]))
    assert len(possible.causes) == 1
    assert possible.causes[0].after == "a file of 3 bytes, sha256 ffffffffffff…, read at most as /dev/stdin"
    assert possible.verdict.startswith("nothing recorded is reason enough: ")
    found = compare(record(standard_input=unread[0]), other_results(standard_input=unread[0]))
    assert (found.causes, "standard input" in found.same) == ((), False)
    unknown = "standard input (a pipe, whose content is not recorded)"
    assert unknown in compare(record(standard_input=pipe), other_results(standard_input=pipe)).unknown
    large = StandardInput(kind="file", size=1 << 40)
    found = compare(record(standard_input=large), other_results(standard_input=large))
    assert "standard input" not in found.same
    assert any(each.startswith("standard input (a file of ") for each in found.unknown)
    assert compare(record(standard_input=terminal), other_results()).causes == ()
    assert compare(record(standard_input=None), other_results(standard_input=file)).causes == ()


def test_other_files_of_the_project() -> None:
    """Named where nothing else is reason enough: but for code, results, inputs, and what git reports already."""
    names = ("flag", "train.py", "conf.json", "model.npz", "data/x.csv", "pylock.digits.toml", "known.txt")
    context = Context(files=dict.fromkeys(names, "only in B"), committed=("known.txt",))
    found = compare(record(), other_results(), context)
    assert [each.sentence for each in found.causes] == [
        "1 other file: flag only in B (no record shows whether it was read)"
    ]
    assert found.verdict.startswith("nothing recorded is reason enough: ")
    assert compare(record(), record(B), context).causes == ()
    assert [each.what for each in compare(record(), other_results(inputs={"data": sha("e")}), context).causes] == [
        "data"
    ]
    many = compare(record(), other_results(), Context(files=dict.fromkeys("abcdef", "10 → 12 bytes"))).causes[0]
    assert many.sentence.startswith("6 other files: a 10 → 12 bytes, b 10 → 12 bytes, ")
    assert " and 2 more (" in many.sentence


def test_what_was_fetched_is_not_known() -> None:
    """Where a run had a network, equal records do not mean equal data."""
    online = msgspec.structs.replace(record().options, network="bridge")
    assert "what was fetched over the network" in compare(record(), other_results(options=online)).unknown
    assert "what was fetched over the network" in compare(record(options=online), record(B, options=online)).unknown
    assert "what was fetched over the network" not in compare(record(), other_results()).unknown


def test_a_large_file_that_was_read() -> None:
    """Known by its size alone: that it was written again is said, though the record lists it."""
    large = (ReadFile(path="big.bin", size=1 << 40, sha256=None),)
    context = Context(files={"big.bin": "written again, of the same size"})
    found = compare(record(reads=large), other_results(reads=large), context)
    assert [each.sentence for each in found.causes] == [
        "1 other file: big.bin written again, of the same size (no record shows whether it was read)"
    ]


def test_an_extension_in_a_temporary_folder() -> None:
    """A name that is never the same reports nothing while the bytes are; other bytes do."""
    moved = (ReadFile(path="/tmp/tmp8x/ext.so", size=9, sha256=sha("8")),)
    assert compare(record(), record(B, objects=moved)).causes == ()
    other = (ReadFile(path="/tmp/ext.so", size=9, sha256=sha("9")),)
    assert sentences(record(), record(B, objects=other)) == ["/tmp/ext.so: sha256 888888888888… → 999999999999…"]


def test_what_one_description_of_a_host_lacks() -> None:
    """An older record describes its host in fewer words: that is reported, and no cause is made of it."""
    bare = msgspec.structs.replace(host([gpu(sms=0, vbios="")]), cpu=msgspec.structs.replace(host().cpu, flags=()))
    found = compare(record(host=bare), record(B))
    assert found.causes == ()
    assert found.unknown[-3:-1] == (
        "host cpu.flags (recorded in one of the runs only)", "gpu sms, vbios (recorded in one of the runs only)"
    )  # fmt: skip


def test_another_number_of_ranks_is_a_cause() -> None:
    """So is another rank; where and under which number a job ran is not, nor a job of one rank."""
    four = Rank(launcher="Slurm", rank=1, world=4, host="a", job="1/0", start="0" * 32)
    again = msgspec.structs.replace(four, host="b", job="2/0", start="1" * 32, launcher="torchrun")
    assert compare(record(rank=four), record(B, rank=again)).causes == ()
    why = "(each has its seed and its share of the work)"
    two = msgspec.structs.replace(four, world=2)
    assert sentences(record(rank=four), record(B, rank=two)) == [f"rank: 1 of 4 → 1 of 2 {why}"]
    assert sentences(record(), record(B, rank=four)) == [f"rank: none → 1 of 4 {why}"]
    assert compare(record(), record(B, rank=Rank(launcher="Slurm", rank=0, world=1))).causes == ()


def test_a_job_that_was_started_again_is_a_cause() -> None:
    """It may have gone on from a checkpoint, so it comes before what is merely another setting."""
    once = Rank(launcher="Slurm", rank=0, world=1, job="1/0")
    again = msgspec.structs.replace(once, job="2/0/1", restarts=1)
    why = "(a job that was started again may have gone on from what it left)"
    assert sentences(record(rank=once), record(B, rank=again)) == [f"started again: 0 times → 1 times {why}"]
    assert compare(record(rank=again), record(B, rank=again)).causes == ()


def test_two_verifications_and_their_cpus_are_alike() -> None:
    """Runs side by side have CPUs of their own; as many are the same."""
    options = record().options
    one = msgspec.structs.replace(options, cpuset="0-1", verification="x")
    other = msgspec.structs.replace(options, cpuset="2,3", verification="y")
    assert compare(record(options=one), record(B, options=other)).causes == ()
    fewer = msgspec.structs.replace(options, cpuset="2")
    assert sentences(record(options=one), record(B, options=fewer)) == [
        "option cpuset: 0-1 → 2 (work is split by the CPUs that are there)"
    ]


def test_what_follows_from_controls_that_are_off() -> None:
    """Without controls the hook sets no seed and notes no framework: the option alone is reported."""
    off = msgspec.structs.replace(record().options, controls=False)
    bare = process(generators={}, switches=[], frameworks={})
    assert sentences(record(), other_results(options=off, processes=(bare,))) == [
        "option controls: on → off (seeds and deterministic operations, on or off)"
    ]


def test_what_follows_from_a_variable_that_is_let_pass() -> None:
    """The variable is reported, and not once more that it is another one in the process, or allowed."""
    allowed = msgspec.structs.replace(record().options, allow=("environment.PYTHONHASHSEED",))
    b = other_results(
        environment={**record().environment, "PYTHONHASHSEED": "7"},
        options=allowed,
        verified="overridden",
        processes=(process(environment_changed={"PYTHONHASHSEED": "7"}),),
    )
    assert sentences(record(), b) == ["PYTHONHASHSEED: (not there) → 7 (changes the order of sets)"]


def test_a_checkpoint_that_one_run_found() -> None:
    """Where nothing else is reason enough, files that were there before one run only are reported."""
    (output,) = other_results().outputs
    found = (msgspec.structs.replace(output, change="changed"),)
    reported = "model.npz at the start: (not there) → there before ({})"
    unread, read = (
        reported.format("an earlier run left it; Python's open did not read it"),
        reported.format("an earlier run left it, and the program read it: it may have gone on from there"),
    )
    only_possible = compare(record(), other_results(outputs=found))
    assert [each.sentence for each in only_possible.causes] == [unread]
    assert only_possible.verdict.startswith("nothing recorded is reason enough: a nondeterministic operation")
    reads = (*record().reads, ReadFile(path="model.npz", size=1, sha256=sha("e")))
    continued = compare(record(), other_results(outputs=found, reads=reads))
    assert ([each.sentence for each in continued.causes], continued.verdict) == ([read], "")
    assert (
        sentences(record(), record(B, outputs=(msgspec.structs.replace(record().outputs[0], change="changed"),))) == []
    )
    changed = other_results(outputs=found, parameters=parameters(learning_rate=0.01, epochs=3))
    assert sentences(record(), changed) == ["learning_rate: 0.1 (default) → 0.01 (default)"]


def test_a_run_that_reached_its_time_limit_ends_otherwise() -> None:
    """The limit is named; the exit code of a program that was killed explains nothing."""
    late = compare(record(exit_code=1), record(B, exit_code=137, timed_out=60.0))
    assert "exit 1 → ended after 60 s, its time limit" in [each.change for each in (*late.results, *late.causes)]


def test_permissions_and_empty_folders_are_results() -> None:
    """A file of equal bytes and other permissions differs; so does an empty folder that only one run left."""
    (first, *_) = record().outputs
    made = Folder(path="fold", change="created", mode="755", empty=True)
    one = record(outputs=(msgspec.structs.replace(first, mode="644"),), folders=(made,))
    other = record(B, outputs=(msgspec.structs.replace(first, mode="755"),))
    found = {each.what: (each.before, each.after) for each in results(one, other)}
    assert found == {"fold": ("an empty folder", NOWHERE), f"permissions of {first.path}": ("644", "755")}


def test_permissions_outside_the_project_and_extended_attributes_are_results() -> None:
    """Equal bytes are not all that a file is."""
    (first, *_) = record().outputs
    left = Output(path="/tmp/w", change="created", size=1, sha256="ab" * 32, mode="644")
    one = record(outputs=(msgspec.structs.replace(first, mode="644", attributes="cd" * 32),), outside=(left,))
    other = record(
        B,
        outputs=(msgspec.structs.replace(first, mode="644"),),
        outside=(msgspec.structs.replace(left, mode="600"),),
    )
    found = {each.what: (each.before, each.after) for each in results(one, other)}
    assert found == {
        "permissions of /tmp/w": ("644", "600"),
        f"extended attributes of {first.path}": ("cdcdcdcdcdcd…", NOWHERE),
    }


def mounted(files: dict[str, str | None], **facts: str) -> Record:
    """A run that imported files of a package from outside the image."""
    package = {"name": "library", "version": "1.0", "path": "/extra/library", "files": files, **facts}
    return record(processes=(process(packages=[package]),))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a.py": sha("0"), "b.py": sha("1")}, {"a.py": sha("0"), "c.py": sha("2")}, []),
        ({"a.py": sha("0"), "b.py": None}, {"a.py": sha("0"), "b.py": sha("2")}, []),
        ({"b.py": sha("1")}, {"c.py": sha("2")}, []),
        (
            {"a.py": sha("0"), "b.py": sha("1"), "c.py": sha("2")},
            {"b.py": sha("2"), "c.py": sha("2")},
            [f"library (not in the image): 1.0 (b.py {'1' * 12}…) → 1.0 (b.py {'2' * 12}…)"],
        ),
        (
            {"a.py": sha("0"), "b.py": sha("1")},
            {"a.py": sha("1"), "b.py": sha("2")},
            [f"library (not in the image): 1.0 (a.py {'0' * 12}… and 1 other) → 1.0 (a.py {'1' * 12}… and 1 other)"],
        ),
    ],
)
def test_packages_are_compared_by_what_both_runs_imported(
    one: dict[str, str | None], other: dict[str, str | None], expected: list[str]
) -> None:
    """Which parts of a package a run imports is no other package; a file of it that differs is."""
    assert sentences(mounted(one), mounted(other)) == expected


def test_a_child_that_was_killed_has_listed_no_packages() -> None:
    """That it has none is no cause; of the main process it is one."""
    package = {"name": "library", "version": "1.0", "path": "/extra/library", "files": {"a.py": sha("0")}}
    for path, expected in (("exec kernel.1", 0), ("", 1)):
        one, other = (record(processes=(process(path=path, packages=each),)) for each in ([package], []))
        assert len(sentences(one, other)) == expected


def test_a_package_of_another_version_or_place_is_named() -> None:
    """The version counts whatever was imported; the folder where nothing else can be compared."""
    assert sentences(mounted({"a.py": sha("0")}), mounted({"b.py": sha("0")}, version="2.0")) == [
        "library (not in the image): 1.0 (/extra/library) → 2.0 (/extra/library)"
    ]
    assert sentences(mounted({"a.py": None}), mounted({"a.py": None}, path="/other")) == [
        "library (not in the image): 1.0 (/extra/library) → 1.0 (/other)"
    ]
    assert sentences(mounted({"a.py": sha("0")}), mounted({"a.py": sha("0")}, path="/other")) == []


@pytest.mark.parametrize(
    ("path", "known"),
    [("worker", True), ("exec t.py.1/worker", True), ("worker 2", False), ("exec worker.py.1", False)],
)
def test_a_helper_of_multiprocessing_in_one_run_only_is_nothing(path: str, known: bool) -> None:
    """The tracker of resources ends after the program, with a record if there is time; a numbered worker was begun."""
    found = sentences(record(processes=(process(), process(path=path))), record(processes=(process(),)))
    assert found == ([] if known else [f"process {path}: 1 → {NOWHERE}"])
    other = record(processes=(process(), process(path=path, seed=7)))
    assert any("seed" in each for each in sentences(record(processes=(process(), process(path=path))), other))


def test_names_that_were_masked_are_quoted_in_equal_runs() -> None:
    """Whether a run draws them, ``diff`` cannot know; where runs differ anyway nothing is quoted."""
    line = PrintedLine(number=2, before="best 7e9d2b5a", after="best e3a5f1d3")
    phrase = "names in standard output, line 2 (best 7e9d2b5a → best e3a5f1d3; envbuild verify shows if runs draw them)"
    same = record()
    assert phrase in compare(same, msgspec.structs.replace(same, id=B), Context(named={"stdout": line})).unknown
    assert phrase not in compare(same, other_results(), Context(named={"stdout": line})).unknown


@pytest.mark.parametrize(
    ("memory", "written"), [(8 << 30, "8 GiB"), (1536 << 20, "1536 MiB"), (3 << 10, "3 KiB"), (1001, "1001 bytes")]
)
def test_memory_is_written_with_its_unit(memory: int, written: str) -> None:
    """As ``--memory`` takes it, to the byte."""
    other = record(B, options=msgspec.structs.replace(record().options, memory=memory))
    (found,) = [each for each in compare(record(), other).others if each.what == "option memory"] or [
        each for each in compare(record(), other).causes if each.what == "option memory"
    ]
    assert found.after == written


def test_files_of_the_image_that_somebody_changed() -> None:
    """What explains every difference comes first; that a short run was not compared explains none."""
    one, other = record(layers="unchanged"), other_results(layers="changed")
    assert compare(one, other).causes[0].what == "files of the image"
    assert "files of the image" not in [each.what for each in compare(one, other_results(layers="not compared")).causes]
