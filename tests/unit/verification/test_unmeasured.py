"""Words before values that no clock gave, though the program asks one for something else."""

from __future__ import annotations

import pytest

from envbuild.verification.dataflow.measuring import measuring
from envbuild.verification.dataflow.unmeasured import label_before

START = "import os, time, random, json\nt = time.time()\na = os.urandom(1)[0] / 7\n"


@pytest.mark.parametrize(
    "source",
    [
        "print(f'tokens_per_second: {a * 1000:.1f}')\nprint(f'took {time.time() - t:.3f} s')",
        "print('tokens_per_second:', a, 'took', time.time() - t)",
        "print('tokens_per_second: %.1f, took %.1f' % (a, time.time() - t))",
        "print('tokens_per_second: {:.1f}, took {:.1f}'.format(a, a))",
        "import logging\nlogging.info('tokens_per_second=%.1f took=%.1f', a, time.time() - t)",
        "json.dump({'tokens_per_second': a, 'took': time.time() - t}, open('o.json', 'w'))",
        "log = {}\nlog['tokens_per_second'] = a\nlog['took'] = time.time() - t\nprint(log)",
        "json.dump(dict(tokens_per_second=a), open('o.json', 'w'))",
        "random.seed(time.time())\nprint('tokens_per_second', random.random())",
        "rng = random.Random(time.time_ns())\nprint('tokens_per_second', rng.random())",
        "def simulate(x):\n    return x * 3\nprint('tokens_per_second', simulate(a))",
        "import torch\nprint('tokens_per_second', a)",
        "import torch\nprint('tokens_per_second', torch.rand(1))",
        "import mystery\nrng = mystery.f()\nprint('tokens_per_second', rng.random() * 3)",
        "class O: pass\no = O()\nsetattr(o, 'took', time.time() - t)\no.rate = a\nprint('tokens_per_second', o.rate)",
        "import heapq\nh = []\nheapq.heappush(h, time.time())\nprint('tokens_per_second', a)",
        "print(a, time.time() - t)\nprint('tokens_per_second', a)",
        "writer.add_scalar('train/tokens_per_second', a, 1)\nwriter.add_scalar('took', time.time() - t, 1)",
        "log = {'tokens_per_second': []}\nlog['tokens_per_second'].append(a)\nlog['took'] = [time.time() - t]",
        "@dataclass\nclass R:\n    name: str\n    tokens_per_second: float\njson.dump(asdict(R('x', a)))",
        "R = namedtuple('R', 'name tokens_per_second')\nR('x', a)",
        "R = namedtuple('R', ['name', 'tokens_per_second'])\nR('x', a)",
        "class R:\n    def __init__(self, *given):\n        self.name, self.tokens_per_second = given\nR('x', a)",
        "w = csv.writer(f)\nw.writerow(['n', 'tokens_per_second', 'took'])\nw.writerow([1, a, time.time() - t])",
        "w = csv.writer(f)\nw.writerow(['n', 'tokens_per_second'])\nw.writerows(rows)\nprint('took', time.time() - t)",
        "frame = DataFrame([(1, a)], columns=['n', 'tokens_per_second'])\nprint('took', time.time() - t)",
        "log = dict(zip(('n', 'tokens_per_second'), (1, a)))\nprint('took', time.time() - t)",
    ],
)
def test_what_no_clock_gave_is_no_measurement(source: str) -> None:
    """What a clock gives elsewhere in the program is none of that value."""
    assert "tokens_per_second" in measuring({"main.py": START + source}).unmeasured


@pytest.mark.parametrize(
    "source",
    [
        "print(f'tokens_per_second: {1000 / (time.time() - t):.1f}')",
        "rate = a\nrate /= time.perf_counter()\nprint('tokens_per_second:', rate)",
        "n = 0\nwhile time.time() < t + 1:\n    n += 1\nprint('tokens_per_second:', n / 1)",
        "n = 0\nfor _ in range(9):\n    n += 1\n    if time.time() > t + 1:\n        break\n"
        "print('tokens_per_second:', n)",
        "class M:\n    n = 0\n    def step(self):\n        self.n += 1\nm = M()\n"
        "while time.time() < t + 1:\n    m.step()\nprint('tokens_per_second:', m.n)",
        "def rate():\n    return 5 / (time.time() - t)\nprint('tokens_per_second:', rate())",
        "writer.add_scalar('tokens_per_second', 5 / (time.time() - t), 1)",
        "log('tokens_per_second')\nprint(a)",
        "class O: pass\no = O()\nsetattr(o, 'took', time.time() - t)\nprint('tokens_per_second:', 5 / o.took)",
        "import heapq\nh = []\nheapq.heappush(h, time.time() - t)\nprint('tokens_per_second:', 5 / h[0])",
        "def show(x):\n    print('tokens_per_second:', x)\nshow(time.time() - t)",
        "def show(x):\n    print('tokens_per_second:', x)\nlist(map(show, [time.time() - t]))",
        "def add(log, x):\n    log.append(x)\nlog = []\nadd(log, time.time())\nprint('tokens_per_second:', log[0])",
        "log = {'tokens_per_second': []}\nlog['tokens_per_second'].append(1 / (time.time() - t))\nprint(log)",
        "import psutil\nprint('tokens_per_second:', psutil.cpu_percent())",
        "import torch\nprint('tokens_per_second:', torch.speed(1))",
        "class R:\n    def random(self):\n        return time.time()\nprint('tokens_per_second:', R().random())",
        "print('tokens_per_second:', random.choice([time.time() - t]))",
        "import threading\nn = 0\nprint('tokens_per_second:', threading.active_count())",
        "print('tokens_per_second:', a, 'x tokens_per_second:', time.time() - t)",
        "print('step,tokens_per_second')\nprint(a, time.time() - t)\ntokens_per_second = a",
        "tokens_per_second = 1 / (time.time() - t)\nprint(f'tokens_per_second: {tokens_per_second}')",
        "class Timer:\n    def __enter__(self):\n        self.t = time.time()\n        return self\n"
        "    def __format__(self, x):\n        return str(time.time() - self.t)\n"
        "with Timer() as w:\n    pass\nprint(f'tokens_per_second: {w}')",
        "@dataclass\nclass R:\n    name: str\n    tokens_per_second: float\nR('x', a)\nR('y', 1 / (time.time() - t))",
        "R = namedtuple('R', 'name tokens_per_second')\nR('x', 1 / (time.time() - t))",
        "w = csv.writer(f)\nw.writerow(['n', 'tokens_per_second'])\nw.writerow([a, time.time() - t])",
        "rows = [(a, time.time() - t)]\nw = csv.writer(f)\nw.writerow(['n', 'tokens_per_second'])\nw.writerows(rows)",
        "frame = DataFrame([(1, time.time() - t)], columns=['n', 'tokens_per_second'])",
        "print('tokens_per_second:', 0)",
        "print('tokens_per_second:', open('/proc/uptime').read())",
    ],
)
def test_what_may_be_of_a_clock_keeps_its_name(source: str) -> None:
    """A value is followed by the names that it may have had, and a count by the loop in which it was made."""
    assert "tokens_per_second" not in measuring({"main.py": START + source}).unmeasured


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("print('point:', int(t) - os.urandom(1)[0] % 2)", {"point"}),
        ("print(f'point {t + a:.3f}, took {time.time() - t}')", {"point"}),
        (
            "import datetime\nprint(f'point {datetime.datetime.now() + datetime.timedelta(seconds=a)}')",
            {"point"},
        ),
        ("t += a\njson.dump({'point': t}, open('o.json', 'w'))", {"point"}),
        ("def at():\n    return t - a\nprint('point', at())", {"point"}),
        ("d = {}\nd['k'] = t - a\nprint('point', d['k'])", {"point", "k"}),
        ("d = [t]\nd[0] += a\nprint('point', d[0])", {"point"}),
        ("if a < 9:\n    t = t - 1\nprint('point', t)", {"point", "t"}),
        ("print('point', t if a < 9 else 0)", {"point"}),
        ("print(time.strftime('%H:%M:%S', time.localtime(t + a)))", {""}),
        ("print(f'{t + a}')", {""}),
        ("print('point', f'{t + a}')", {"", "point"}),
        ("open('o', 'w').write(time.ctime(t + a) + '\\n')", {""}),
        ("json.dump([t + a], open('o.json', 'w'))", {""}),
        ("wait(t + a)\nprint(time.ctime())", set()),
        ("if a < 9:\n    print('point', t)", set()),
        ("print('point', time.time(), 'loss', a)", set()),
        ("rng, begin, total = random.Random(), time.time(), 0\ntotal += rng.random()\nprint('began', begin)", set()),
        ("print('took', time.time() - t, 'rate', a / (time.time() - t))", set()),
        ("loss = 0\nloss += a\nspent = 0\nspent += time.time() - t\nprint('loss', loss, 'spent', spent)", set()),
    ],
)
def test_a_moment_that_something_drawn_has_moved(source: str, expected: set[str]) -> None:
    """It is a result, though the run was at that time; a moment next to what was drawn is none."""
    assert measuring({"main.py": START + source}).shifted == expected


def test_memory_that_nothing_measured() -> None:
    """An amount that the program computes is none of its own memory."""
    source = START + "import resource\nprint('memory:', a, 'peak:', resource.getrusage(0).ru_maxrss)"
    found = measuring({"main.py": source}).unmeasured
    assert "memory" in found
    assert "peak" not in found


def test_a_module_gives_no_value_its_name() -> None:
    """``import time`` is why the word is known; a variable or an attribute of that name may hold a time."""
    drawn = f"{START}print(f'train time: {{a:.3f}} s')\n"
    assert "time" in measuring({"main.py": drawn}).unmeasured
    assert "time" in measuring({"main.py": f"from time import time\n{drawn}print(time() - t)"}).unmeasured
    for other in ("o.time = t", "f(time=t)", "from time import time\nf(time)", "def f(time): pass", "time = t"):
        assert "time" not in measuring({"main.py": drawn + other}).unmeasured, other


@pytest.mark.parametrize(
    "source",
    [
        "print(f'train time: {a:.3f} s')\nprint(f'total time: {time.time() - t:.3f} s')",
        "print('train time: %.3f s, total time: %.3f s' % (a, time.time() - t))",
        "print('train time:', a)\nprint('total time:', time.time() - t)",
    ],
)
def test_two_words_name_a_value_where_the_last_one_names_another_one_too(source: str) -> None:
    """``time`` alone may be of a clock there."""
    unmeasured = measuring({"main.py": START + source}).unmeasured
    assert "train time" in unmeasured
    assert not {"time", "total time"} & unmeasured
    assert "train time" not in measuring({"main.py": f"{START}{source}\nprint('train time:', time.time())"}).unmeasured


def test_the_last_word_names_a_value() -> None:
    """It is looked for in sources and in what they print alike."""
    assert [label_before(text) for text in ("loss 0.5 eta 0:", '{"fps": ', "12: ")] == ["eta", "fps", ""]
