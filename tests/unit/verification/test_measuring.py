"""What a program can measure, as far as its sources show."""

from __future__ import annotations

import pytest

from envbuild.verification.dataflow.measuring import Measuring, measuring


@pytest.mark.parametrize(
    "source",
    [
        "import random\nprint('tokens_per_second', random.random())",
        "import time\ntime.sleep(1)\nprint('total time', 3.5)",
        "from time import sleep\nsleep(1)",
        "import simpy\nenv = simpy.Environment()\nprint('wait_time', env.now)",
        "import re, numpy as np\nre.compile('x')\nnp.mean([1])",
        "time = 0.0\nfor _ in range(3):\n    time += 0.5\nprint('time', time)",
        "from datetime import datetime, timedelta\nprint(datetime(2020, 1, 1) + timedelta(days=3))",
        "import helpers\nprint(helpers.simulate())",
        "model.eval()",
    ],
)
def test_what_asks_no_clock_measures_no_time(source: str) -> None:
    """A number that looks like a time was computed there."""
    found = measuring({"main.py": source, "helpers.py": "x = 1"})
    assert not found.time
    assert not found.memory


@pytest.mark.parametrize(
    "source",
    [
        "import time\nprint(time.perf_counter())",
        "import time as t\nprint(t.time())",
        "from time import *",
        "from time import monotonic as m",
        "import time\nclock = time\nprint(clock.time())",
        "from datetime import datetime\nprint(datetime.now())",
        "from datetime import datetime\nmake = datetime.now",
        "import os\nprint(os.times())",
        "import asyncio\nasyncio.get_event_loop().time()",
        "import numpy as np\nprint(np.datetime64('now'))",
        "import pandas as pd\nprint(pd.Timestamp('today'))",
        "import torch",
        "import tqdm",
        "import importlib\nimportlib.import_module('ti' + 'me')",
        "eval('__imp' + 'ort__(\"ti\" + \"me\")')",
        "import subprocess\nsubprocess.run(['date'])",
        "import os\nos.system('date')",
        "print(open('/proc/uptime').read())",
        "import ctypes",
        "import os\nprint(os.stat('x').st_mtime)",
        "from . import *\nprint(",
    ],
)
def test_what_may_ask_a_clock_measures(source: str) -> None:
    """What the sources do not show is no evidence, nor is what they have in a form that is not read."""
    assert measuring({"main.py": source}).time


@pytest.mark.parametrize(
    ("text", "draws"),
    [("Epoch {}", False), ("{}%|{}| 1/1", True), ("{:.2f}it/s]", True), ("{x}s/it", True), ("loss %.3f", False)],
)
def test_texts_of_bars_are_seen(text: str, draws: bool) -> None:
    """What a program's own sources write may look like a bar of tqdm's and be a result."""
    assert measuring({"main.py": f"print({text!r})"}).draws_bars is draws


@pytest.mark.parametrize(
    ("source", "draws"),
    [
        ("import random\nrng = random.Random()", True),
        ("import random\nrng = random.Random(None)", True),
        ("import random\nrng = random.Random(7)", False),
        ("import random\ndef run(n, seed=None):\n    return random.Random(seed).random()", True),
        ("import random\ndef run(n, *, seed=7, name=None):\n    return random.Random(seed).random()", False),
        ("import random\nclass C:\n    seed: int | None = None\nrng = random.Random(C().seed)", True),
        ("import random\np.add_argument('--seed', type=int)\nrng = random.Random(p.parse_args().seed)", True),
        ("import random\np.add_argument('--seed', type=int)\nif a.seed:\n    random.seed(a.seed)", False),
        ("import random\np.add_argument('--seed', default=7)\nrng = random.Random(p.parse_args().seed)", False),
        ("import random\nrandom.seed()", True),
        ("import random\nrandom.seed(7)", False),
        ("import random, time\nrandom.seed(int(time.time() * 1000))", True),
        ("import numpy as np, os\nrng = np.random.default_rng([os.getpid(), 1])", True),
        ("import numpy as np\nrng = np.random.default_rng()", False),  # the hook seeds it
        ("from random import SystemRandom\nrng = SystemRandom()", True),
        ("import secrets\nn = secrets.randbelow(9)", True),
        ("import secrets\nname = secrets.token_hex(4)", False),
        ("import os\nshare = int.from_bytes(os.urandom(8), 'big') / 2**64", True),
        ("import os\nname = os.urandom(4).hex()", False),
        ("import os, base64\nname = base64.b64encode(os.urandom(4))", False),
        ("import os, uuid\nname = uuid.UUID(bytes=os.urandom(16), version=4)", False),
        ("import os\nlevels = [each / 255 for each in os.urandom(4)]", True),
        ("import torch\ng = torch.Generator()\ng.seed()", True),
        ("class Random:\n    pass\ndef draw(rng: Random): ...", False),
    ],
)
def test_a_generator_without_a_seed_is_seen(source: str, draws: bool) -> None:
    """It may have given any number that a program writes, whatever else is timed."""
    assert measuring({"main.py": source}).draws is draws


def test_without_sources_nothing_is_known() -> None:
    """A program whose files were not kept may do anything."""
    assert measuring({}) == Measuring()


@pytest.mark.parametrize(
    ("source", "names", "makes"),
    [
        ("import uuid, random\nprint(uuid.UUID(int=random.getrandbits(128), version=4))", False, True),
        ("import uuid\nprint(uuid.uuid4())", True, False),
        ("import os, uuid\nprint(uuid.UUID(bytes=os.urandom(16), version=4))", True, True),
        ("import random\nprint(random.random())", False, False),
        ("import secrets", True, False),
        ("from uuid import uuid4 as new", True, False),
    ],
)
def test_names_that_are_drawn_and_made(source: str, *, names: bool, makes: bool) -> None:
    """A UUID may be drawn, or be made of numbers that a generator gave."""
    found = measuring({"main.py": source})
    assert (found.names, found.makes_names) == (names, makes)


@pytest.mark.parametrize(
    ("source", "uuids"),
    [
        ("import uuid\nprint(uuid.uuid4())", "drawn"),
        ("from uuid import uuid4 as new\nprint(new())", "drawn"),
        ("import uuid\nprint(uuid.uuid1(), uuid.uuid4())", "clock"),
        ("import os\nprint(os.urandom(8))", "none"),  # entropy alone gives no UUID
        ("import secrets, tempfile, numpy", "none"),
        ("import mlflow\nimport uuid\nuuid.uuid4()", "unknown"),
        ("print(eval('1'))", "unknown"),
    ],
)
def test_how_uuids_are_drawn(source: str, uuids: str) -> None:
    """What a program calls shows whether a text in the form of a UUID may be a name."""
    assert measuring({"main.py": source}).uuids == uuids


@pytest.mark.parametrize(
    ("source", "memory"),
    [("import psutil", True), ("import tracemalloc", True), ("print('memory used: 3 MB')", False)],
)
def test_memory(source: str, *, memory: bool) -> None:
    """Amounts of memory are computed where nothing looks at any."""
    assert measuring({"main.py": source}).memory is memory


@pytest.mark.parametrize(
    ("source", "makes"),
    [
        ("import torch, uuid\nprint(uuid.uuid4(), uuid.uuid4().hex)", False),
        ("print(f'{x:d} {y:.3f}', 'max', 'index')", False),
        ("print(x.hex())", True),
        ("print(hex(7))", True),
        ("print(f'{x:032x}')", True),
        ("print('%032x' % x)", True),
        ("print('{:x}'.format(x))", True),
        ("import hashlib\nprint(hashlib.md5(x).hexdigest())", True),
        ("print(''.join(rng.choice('0123456789abcdef') for _ in range(32)))", True),
        ("import uuid as u\nprint(u.UUID(int=3))", True),
        ("print(", None),
    ],
)
def test_what_makes_hexadecimal_digits(source: str, makes: bool | None) -> None:
    """A text in the form of a UUID that nothing drew is made of them."""
    assert measuring({"main.py": source}).makes_hex is makes


def test_a_log_may_say_how_long_the_program_runs() -> None:
    """Its format asks for it, and no code."""
    source = "import logging\nlogging.basicConfig(format='%({})s %(message)s')\n"
    assert [measuring({"t.py": source.format(name)}).time for name in ("relativeCreated", "name")] == [True, False]


@pytest.mark.parametrize(
    ("source", "glued"),
    [
        ('print(time.strftime("%H:%M:%S") + f",{n:03d} INFO")', True),
        ("print(f\"{time.strftime('%H:%M:%S')},{n:03d}\")", True),
        ('print(time.strftime("%H:%M:%S,") + str(n))', True),
        ('print("%s,%03d" % (time.strftime("%H:%M:%S"), n))', True),
        ('print("{}.{}".format(time.strftime("%H:%M:%S"), n))', True),
        ('print(time.strftime("%H:%M:%S"), n, sep=",")', True),
        ('print(",".join([time.strftime("%H:%M:%S"), str(n)]))', True),
        ("print(datetime.now().replace(microsecond=n))", True),
        ("record.msecs = n", True),
        ('print(f"{n},{n}")', False),
        ('print(f"{time.time()}: {n}")', False),
        ("now = time.time()\nprint(f\"{time.strftime('%S')},{int(now % 1 * 1000):03d}\")", False),
        ('print(n, n, sep=",")', False),
    ],
)
def test_values_behind_a_time_look_like_parts_of_a_second(source: str, *, glued: bool) -> None:
    """If something else than a clock gave them."""
    head = "import os, time\nfrom datetime import datetime\nn = os.urandom(1)[0]\n"
    assert measuring({"main.py": head + source}).glued == glued


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("print(f'<Net at {hex(n)}>')", True),
        ("print('<Net at 0x%x>' % n)", True),
        ("print(f'<Net at 0x7f{n:010x}>')", True),
        ("print('at', n)", False),
        ("print('done at last')", False),
    ],
)
def test_addresses_that_sources_write_themselves(source: str, *, shown: bool) -> None:
    """They need be none of an object."""
    assert measuring({"main.py": source}).shows_addresses == shown


def test_a_uuid_of_a_time_with_a_part_that_was_given_is_made() -> None:
    """``uuid1(node=…)`` has 48 bits of whatever the program likes."""
    assert measuring({"main.py": "import uuid\nprint(uuid.uuid1(node=n))"}).makes_names
    assert not measuring({"main.py": "import uuid\nprint(uuid.uuid1())"}).makes_names
