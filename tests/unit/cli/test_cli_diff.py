"""``envbuild diff``: what people see, which runs are compared, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.core.digest import sha256_bytes
from envbuild.errors import EnvbuildError, UsageError
from envbuild.inputs.digest import digest_inputs
from envbuild.lockfile import model as locks
from envbuild.operations.bisect import bisect
from envbuild.operations.diff import diff, select_pair
from envbuild.operations.events import Silent
from envbuild.record import history, sources
from envbuild.record.model import LockFacts, Record, Script, dumps
from envbuild.record.printed import keep
from envbuild.record.processes import ReadFile
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import PrintedDigest
from tests.support.hosts import gpu, host
from tests.support.locks import small_lock
from tests.support.records import A, B, other_results, parameters, process, record, sha

pytestmark = pytest.mark.usefixtures("standing_in_a_project")

HEAD = "A         01JC000000  2026-01-02 05:04:05  python train.py\nB         01JD000000  2026-01-02 05:04:05  {}\n"
ALL = "data, parameters, command, script, modules, configs, git, seeds, switches, environment, options, lock, image"


CPU = host().cpu


def saved(*records: Record) -> None:
    for each in records:
        history.save(Path(), each)


def shown(capsys: pytest.CaptureFixture[str], *names: str, command: str = "python train.py") -> tuple[int, str]:
    """Exit code and screen without the lines that name the runs."""
    code = cli.main(["diff", *names])
    out, err = capsys.readouterr()
    head = HEAD.format(command)
    assert (err, out[: len(head)]) == ("", head)
    return code, out[len(head) :]


def source(text: str) -> str:
    """Keep a source; returns its digest."""
    Path("x.py").write_text(text)
    digest = sha256_bytes(text.encode())
    sources.keep_sources(Path(), record(script=Script(path="x.py", sha256=digest), modules=(), configs=()))
    Path("x.py").unlink()
    return digest


def data(*names: str) -> str:
    """Write declared data and return its digest; its listing is kept."""
    for name in names:
        path = Path("data") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (entry,) = digest_inputs(Path(), ["data"])
    return entry.blake3


def test_the_classic_story(capsys: pytest.CaptureFixture[str]) -> None:
    """Images added and a default changed: the first two lines of what is reported, on one screen."""
    before = data("cats/0.png")
    old, new = source("parser\nlr = 0.1\n"), source("parser\nlr = 0.01\n")
    a = record(inputs={"data": before}, script=Script(path="train.py", sha256=old), modules=())
    after = data(*(f"cats/{number}.png" for number in range(1, 3413)))
    b = other_results(
        inputs={"data": after}, script=Script(path="train.py", sha256=new), modules=(),
        parameters=parameters(learning_rate=0.01, epochs=3),
    )  # fmt: skip
    saved(a, b)
    assert shown(capsys) == (
        16,
        "results   val_accuracy  0.9697 → 0.9471\n"
        "          model.npz     1 of 1 tensor differs: kernel\n"
        "because   data/          3,412 files added since A, 0 changed; first: cats/1.png\n"
        "            added  cats/10.png\n"
        "            added  cats/100.png\n"
        "          learning_rate  0.1 (default) → 0.01 (default)\n"
        "          train.py       1 line changed, line 2\n"
        "            - lr = 0.1\n"
        "            + lr = 0.01\n"
        "same      command, configs, git, seeds, switches, environment, options, lock, image, host, GPU\n"
        "unknown   imported modules and configuration files (not recorded in A and B), "
        "variable HF_TOKEN, which is masked\n",
    )


def test_another_gpu_and_driver(capsys: pytest.CaptureFixture[str]) -> None:
    """Model before driver, each with what it does."""
    other = host(
        [gpu("NVIDIA H100 80GB HBM3", memory=81559)],
        driver="570.86.15",
        cpu=msgspec.structs.replace(CPU, flags=("avx2", "fma"), level="x86-64-v3"),
    )
    saved(record(), other_results(host=other))
    code, out = shown(capsys)
    assert code == 16
    assert out == (
        "results   val_accuracy  0.9697 → 0.9471\n"
        "          model.npz     1 of 1 tensor differs: kernel\n"
        "because   gpu.model        NVIDIA H200 → NVIDIA H100 80GB HBM3 (another GPU: other kernels, other bits)\n"
        "          host cpu.level   x86-64-v4 → x86-64-v3 (libraries choose other code by it: other bits possible)\n"
        "          host cpu.flags   +avx512f → none of these (libraries choose other code by it: other bits possible)\n"
        "          gpu.driver       580.159.04 → 570.86.15 (it compiles kernels: other bits possible)\n"
        "          libcuda.version  580.159.04 → 570.86.15 (it compiles kernels: other bits possible)\n"
        "          gpu.memory       143771 → 81559 (algorithms and batch sizes may follow it)\n"
        f"same      {ALL}\n"
        "no matter nvml: 580.159.04 → 570.86.15\n"
        "unknown   variable HF_TOKEN, which is masked\n"
    )


def test_a_library_of_a_kept_lock(capsys: pytest.CaptureFixture[str]) -> None:
    """Both locks were kept: the patch version is named, and that lock and image differ goes without saying."""
    digests = []
    for version in ("2.4.5", "2.4.6"):
        lock = small_lock({f"numpy-{version}-py3-none-any.whl": version.encode()})
        Path("pylock.t.toml").write_bytes(locks.dumps(lock))
        sources.keep_lock(Path(), Path("pylock.t.toml"))
        digests.append(sha256_bytes(locks.dumps(lock)))
    Path("pylock.t.toml").unlink()
    first, second = (LockFacts(file="pylock.t.toml", sha256=digest) for digest in digests)
    saved(record(lock=first), other_results(lock=second, image=sha("f")))
    _, out = shown(capsys)
    assert "because   numpy  2.4.5 → 2.4.6\nsame      data, " in out
    assert "image" not in out
    assert "no matter" not in out


def test_seeds_and_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed comes first; of a secret only that it is one is reported, whatever its value."""
    environment = {"OMP_NUM_THREADS": "2", "HF_TOKEN": "***", "API_KEY": "***"}
    b = other_results(processes=(process(seed=43, generators={"numpy": 43, "torch": 43}),), environment=environment)
    saved(record(), b)
    _, out = shown(capsys)
    assert "because   seed     42 → 43\n          API_KEY  (not there) → ***\n" in out
    assert out.endswith("unknown   variable HF_TOKEN, which is masked\n")


def test_equal_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is invented, and the exit code is good; what differs all the same is under "although"."""
    saved(record(), record(B))
    assert shown(capsys) == (
        0,
        "results   bit-identical (1 output, 1 metric)\n"
        f"same      {ALL}, host, GPU\n"
        "unknown   variable HF_TOKEN, which is masked, "
        "printed lines (not recorded; envbuild verify compares them)\n",
    )
    saved(record(B, host=host([gpu()], driver="570.86.15")))
    code, out = shown(capsys)
    assert code == 0
    assert out.splitlines()[1].startswith("although  gpu.driver       580.159.04 → 570.86.15")


def with_text(of: Record, text: str) -> Record:
    """Return the record of a run that printed a text, which is kept."""
    digest = PrintedDigest(Masks(0.0))
    digest.feed(text.encode())
    keep(Path.cwd(), of.id, {"stdout": text.encode()})
    return msgspec.structs.replace(of, printed={"stdout": digest.result()})


@pytest.mark.parametrize(
    ("one", "other", "noticed"),
    [
        ("loss 0.25\n", "loss 0.26\n", True),
        ("loss 0.25\n", "loss 0.25  \n", False),
        ("took 1.5 s\nloss 0.25\n", "took 1.7 s\nloss 0.26\n", False),  # other masks may have been in force
        ("loss 0.25\n", "loss 0.26\n" * 300_000, False),  # the end is missing
    ],
)
def test_results_that_were_copied_from_another_record(
    one: str, other: str, noticed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was kept of the printed lines is a witness: the runs are called equal no longer."""
    first = with_text(record(), one)
    keep(Path.cwd(), B, {"stdout": other.encode()})
    saved(first, record(B, printed=first.printed))
    code, out = shown(capsys, A, B)
    reported = (
        "results   not known: standard output is one by the records, and differs in what was kept of it, line 1: "
        "loss 0.25 → loss 0.26; all else is equal\n"
    )
    assert (code == 16, out.startswith(reported)) == (noticed, noticed)


def test_printed_lines_are_results(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line that differs is quoted where the texts are there; equal lines are counted."""
    one, other = "took 1.5 s\naccuracy 0.9063\n", "took 2.5 s\naccuracy 0.9067\n"
    saved(with_text(record(), one), with_text(record(B), one))
    assert shown(capsys)[1].startswith(
        "results   bit-identical (1 output, 1 metric, 2 printed lines with times masked)\n"
    )
    saved(with_text(record(B), other))
    code, out = shown(capsys)
    assert code == 16
    assert out.startswith("results   standard output, line 2  accuracy 0.9063 → accuracy 0.9067\n")
    (Path.cwd() / ".envbuild/runs" / B / "printed/stdout").unlink()
    (Path.cwd() / ".envbuild/runs" / record().id / "printed/stdout").unlink()
    out = shown(capsys)[1]
    assert out.startswith("results   standard output  2 lines in both runs, not all of them equal\n")


def test_other_results_without_a_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """The way on is named."""
    saved(record(), other_results())
    code, out = shown(capsys)
    assert code == 16
    assert (
        "because   nothing recorded differs: a nondeterministic operation, or what no record holds, "
        "see envbuild verify\n" in out
    )


def test_a_refused_run(capsys: pytest.CaptureFixture[str]) -> None:
    """It has no results, so equality is not known: no good exit code."""
    saved(record(), record(B, state="refused", verified="refused", exit_code=78))
    code, out = shown(capsys, A, B)
    assert code == 16
    assert out.startswith(
        "results   B has no results: the guard refused it, nothing was run\n"
        "differs   verified  yes → refused (differences from the lock)\n"
    )


def test_many_packages_fit_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Five of one kind are named, the others counted."""
    wheels = [{f"part{n}-{version}-py3-none-any.whl": b"%d" % n for n in range(40)} for version in ("1.0", "2.0")]
    facts = []
    for each in wheels:
        data = locks.dumps(small_lock(each))
        Path("pylock.t.toml").write_bytes(data)
        sources.keep_lock(Path(), Path("pylock.t.toml"))
        facts.append(LockFacts(file="pylock.t.toml", sha256=sha256_bytes(data)))
    saved(record(lock=facts[0]), other_results(lock=facts[1]))
    _, out = shown(capsys)
    assert out.count(" 1.0 → 2.0\n") == 5
    assert "          and 35 more (35 in packages): --json\n" in out
    assert len(out.splitlines()) < 24


def test_json_has_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, each with its sentence; nothing else is on standard output."""
    saved(record(), other_results(inputs={"data": sha("f")}))
    assert cli.main(["diff", "--json"]) == 16
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["a"], found["b"], found["outcome"], err) == (A, B, "different", "")
    assert found["causes"][0] == {
        "area": "inputs", "what": "data", "before": "blake3:444444444444…", "after": "blake3:ffffffffffff…",
        "change": "other content; no listing is kept of one of them, so no names", "weight": 95, "details": [],
        "follows": "", "sentence": "data: other content; no listing is kept of one of them, so no names",
    }  # fmt: skip


def ids(number: int) -> str:
    return f"01JC00000{number}" + "0" * 16


def pair(capsys: pytest.CaptureFixture[str], *names: str) -> list[str]:
    cli.main(["diff", *names])
    return [line.split()[1][-1] for line in capsys.readouterr().out.splitlines()[:2]]


def test_which_runs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The two newest; one with the newest earlier of its recipe, else the newest earlier, else the newest at all."""
    saved(*(record(ids(number), recipe=sha(recipe)) for number, recipe in enumerate("aabac")))
    saved(record(ids(5), state="refused"))
    assert pair(capsys) == ["3", "4"]
    assert pair(capsys, ids(3)) == ["1", "3"]
    assert pair(capsys, ids(2)) == ["1", "2"]
    assert pair(capsys, ids(0)) == ["0", "5"]
    assert pair(capsys, ids(4), ids(1)) == ["4", "1"]
    assert pair(capsys, "01jc000004", f".envbuild/runs/{ids(0)}") == ["4", "0"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "nothing to compare: {} has 1 run"),
        ((A,), f"nothing to compare run {A} with in {{}}"),
        ((A, A[:4]), f"run {A} cannot be compared with itself"),
        (("./none", A), "cannot read none: No such file or directory"),
    ],
)
def test_runs_that_cannot_be_compared(names: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Each is reported in a sentence."""
    saved(record())
    with pytest.raises(UsageError) as refused:
        select_pair(names, tmp_path)
    assert refused.value.message == message.format(tmp_path)


def test_how_to_get_two_runs(tmp_path: Path) -> None:
    """The next command is that of the one run that is there, or a script that is."""
    hints = []
    for each in (None, record(command=("python", "fit.py", "a b"))):
        saved(*([each] if each else []))
        with pytest.raises(UsageError) as refused:
            select_pair((), tmp_path)
        hints.append((refused.value.message, refused.value.hint))
        Path("fit.py").touch()
    where = f"nothing to compare: {tmp_path} has"
    assert hints == [
        (f"{where} no runs", "run twice: envbuild run train.py"),
        (f"{where} 1 run", "run again: envbuild run fit.py 'a b'"),
    ]


def program(number: int, path: str, verification: str = "") -> Record:
    """A run of a script, or of another command; maybe by verify."""
    script = Script(path=path, sha256=sha("3")) if path.endswith(".py") else None
    options = msgspec.structs.replace(record().options, verification=verification)
    return record(ids(number), script=script, command=("python", path) if script else (path,), options=options)


@pytest.mark.parametrize(
    ("made", "compared"),
    [
        (("a.py", "b.py", "a.py"), "02"),  # not b with a
        (("a.py", "a.py", "ls"), "01"),  # the newest of which there is an earlier one
        (("a.py", "a.py", "v:a.py", "v:a.py", "v:a.py"), "01"),  # runs before copies
        (("a.py", "v:a.py", "v:a.py"), "02"),  # one copy of a verification
        (("v:a.py", "v:a.py"), "01"),
        (("a.py", "b.py", "c.py"), "12"),
    ],
)
def test_runs_of_one_program_are_compared(
    made: tuple[str, ...], compared: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default those that people mean: the newest of one program, and verify's copies only if there are no others."""
    for number, name in enumerate(made):
        saved(program(number, name.removeprefix("v:"), "x" if name.startswith("v:") else ""))
    assert "".join(pair(capsys)) == compared


def test_an_earlier_run_of_the_same_program(capsys: pytest.CaptureFixture[str]) -> None:
    """A named run of which no recipe was run before is compared with its own script, not with what ran in between."""
    saved(
        *(
            msgspec.structs.replace(program(n, name), recipe=sha(str(n)))
            for n, name in enumerate(["a.py", "b.py", "a.py"])
        )
    )
    assert pair(capsys, ids(2)) == ["0", "2"]


def test_runs_of_two_projects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A record is named by its folder or file; what was kept is looked for in each run's own project."""
    one, other = tmp_path / "one", tmp_path / "other"
    for project, each in ((one, record()), (other, other_results(inputs={"data": sha("f")}))):
        project.mkdir()
        history.save(project, each)
    names = (f"{one}/.envbuild/runs/{A}", f"{other}/.envbuild/runs/{B}/record.json")
    assert cli.main(["diff", *names]) == 16
    assert "because   data  other content" in capsys.readouterr().out


def test_a_record_that_lacks_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """What it does not know is unknown, not equal, and nothing is made of it."""
    lacking = ("parameters", "configs", "modules", "objects", "verified", "gpus", "metrics")
    old = {key: value for key, value in json.loads(dumps(record())).items() if key not in lacking}
    old |= {"host": {"kernel": "6.8.0-45-generic", "machine": "x86_64", "cpu": {"model": "A CPU"}}}
    saved(other_results())
    folder = Path(".envbuild/runs") / A
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(old))
    _, out = shown(capsys)
    assert "parameters (recorded only in B)" in out
    assert "imported modules and configuration files (not recorded in A)" in out


def search(project: Path) -> None:
    """Search without an engine, which must not be needed."""
    none: Any = None
    bisect(diff(*select_pair((), project)), connect=none, build=none, events=Silent())


def test_bisect_needs_other_results(tmp_path: Path) -> None:
    """Nothing is run if there is nothing to find."""
    saved(record(), record(B))
    with pytest.raises(EnvbuildError) as refused:
        search(tmp_path)
    assert refused.value.message == "--bisect: the results do not differ: bit-identical (1 output, 1 metric)"


def test_bisect_needs_a_run_that_can_be_made_again(tmp_path: Path) -> None:
    """What is missing is named before anything is built or started."""
    saved(record(), other_results())
    with pytest.raises(EnvbuildError) as refused:
        search(tmp_path)
    assert refused.value.message == "--bisect: run 01JC000000 cannot be run again: its lock was not kept"


def test_what_is_kept_of_a_run(tmp_path: Path) -> None:
    """Sources as they were read, for their owner only; none that changed since, is large, or holds a secret."""
    texts: dict[str, Any] = {
        "train.py": "print()\n", "edited.py": "1\n", "token.py": "x = 'ghp_" + "a" * 30 + "'\n",
        "conf.yaml": "lr: 0.1\n", "login.yaml": "user: me\napi_key: 12345\n", "large.py": "#" * (sources.LIMIT + 1),
    }  # fmt: skip
    files = {}
    for name, text in texts.items():
        Path(name).write_text(text)
        files[name] = ReadFile(path=name, size=len(text), sha256=sha256_bytes(text.encode()))
    Path("edited.py").write_text("2\n")
    outside = ReadFile(path=str(tmp_path / "train.py"), size=1, sha256=files["train.py"].sha256)
    modules = tuple(files[name] for name in texts if name.endswith(".py"))
    configs = (files["conf.yaml"], files["login.yaml"], outside)
    sources.keep_sources(Path(), msgspec.structs.replace(record(), script=None, modules=modules, configs=configs))
    found = {name: sources.source(Path(), file.sha256 or "") for name, file in files.items()}
    assert {name for name, text in found.items() if text is not None} == {"train.py", "conf.yaml"}
    assert found["train.py"] == b"print()\n"
    assert len(list(Path(".envbuild/sources").iterdir())) == 2
    (place,) = (path for path in Path(".envbuild/sources").iterdir() if path.read_bytes() == b"print()\n")
    assert place.stat().st_mode & 0o777 == 0o600
    place.write_bytes(b"print('altered')\n")
    assert sources.source(Path(), files["train.py"].sha256 or "") is None
