"""Further lines of a cause: what a reader would look for next to the line that an experiment found."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.chains import (
    argument_at,
    asked_at,
    attribute_lines,
    begins,
    begun_at,
    interrupts,
    other_readings,
    own_numbers,
    taken_at,
    value_lines,
    waits_in_turns,
)


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        ("t = threading.Thread(target=f)\nt.start()\n", 1, (2,)),
        ("threading.Thread(target=f).start()\n", 1, ()),
        (
            "ts = [Thread(target=f) for _ in range(3)]\nfor t in ts:\n    t.start()\nfor t in ts:\n    t.join()\n",
            1,
            (3,),
        ),
        (
            "ps = []\nfor k in ks:\n    ps.append(mp.Process(target=f))\nfor p in ps:\n    p.start()\n",
            3,
            (5,),
        ),
        ("class A:\n    def go(self):\n        self.t = Thread(target=f)\n        self.t.start()\n", 3, (4,)),
        ("[t.start() for t in ts]\nts = [Thread(target=f), Thread(target=g)]\n[t.start() for t in ts]\n", 2, (1, 3)),
        ("class W(Thread): ...\nw = W()\nw.start()\n", 2, (3,)),
        ("t = threading.Thread(target=f)\nother.start()\n", 1, ()),
        ("t = pool.Pool()\nt.start()\n", 1, ()),
        ("def (", 1, ()),
    ],
)
def test_what_begins_a_thread(source: str, line: int, found: tuple[int, ...]) -> None:
    """By the name, the attribute or the list that it is kept under."""
    assert begun_at(source, line) == found


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        ("p = select.poll()\np.register(f)\nfor fd, event in p.poll():\n    read(fd)\n", 1, (3,)),
        ("s = selectors.DefaultSelector()\nwhile n:\n    for key, mask in s.select():\n        n -= 1\n", 1, (3,)),
        (
            "class A:\n    def __init__(s):\n        s.q = Queue()\n    def go(s):\n        return s.q.get()\n",
            3,
            (5,),
        ),
        ("q = queue.Queue()\nq.put(1)\nother.get()\nwhile not q.empty():\n    q.get_nowait()\n", 1, (4, 5)),
        ("s = sched.scheduler(time.monotonic)\ns.enter(1, 1, f)\ns.run()\n", 1, (2,)),
        ("p, q = Queue(), Queue()\np.put(1)\nq.get()\n", 1, (3,)),
        ("q = queue.Queue(); q.get()\n", 1, ()),
        ("q = config()\nq.get()\n", 1, ()),
        ("def (", 1, ()),
    ],
)
def test_what_asks_who_came_first(source: str, line: int, found: tuple[int, ...]) -> None:
    """Through the name or the attribute of what says so."""
    assert asked_at(source, line) == found


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        ("t = time.perf_counter()\nwork()\ns += time.perf_counter() - t\n", 1, (3,)),
        ("t = time.perf_counter()\nwork()\ns += time.perf_counter() - t\n", 3, (1,)),
        ("self.t = clock()\nif clock() - self.t > 3:\n    stop()\n", 1, (2,)),
        ("self.saved = time.time()\nage = time.time() - state.saved\n", 1, (2,)),
        ("self.saved = time.time()\nage = time.time() - state.seen\n", 1, ()),
        ("t = time.time()\ns = time.monotonic() - t\n", 1, ()),
        ("t = time.time()\ns = time.time() - u\n", 1, ()),
        ("t = time.time()\ns = t - time.time()\n", 1, ()),
    ],
)
def test_the_other_end_of_a_time(source: str, line: int, found: tuple[int, ...]) -> None:
    """It is asked of the same clock and taken from what the first gave."""
    assert other_readings(source, line) == found


def test_an_argument_on_a_line_of_its_own() -> None:
    """As calls with many have them."""
    source = "model = Word2Vec(\n    corpus,\n    workers=4,\n)\nother(\n    workers=4)\n"
    assert argument_at(source, 1, ["workers"]) == (3,)
    assert argument_at(source, 1, ["seed"]) == ()
    assert argument_at("Word2Vec(corpus, workers=4)\n", 1, ["workers"]) == ()


def test_who_gets_the_number_of_the_own_process() -> None:
    """A program or a process that is given it may signal this one."""
    source = (
        "pid = os.getpid()\nPopen(['sh', 'stop.sh', str(os.getpid())])\nos.kill(os.getpid(), 15)\nprint(os.getpid())\n"
    )
    assert own_numbers(source) == (2, 3)
    assert own_numbers("def (") == ()


def test_lines_that_read_an_attribute() -> None:
    """Not those that set it."""
    assert attribute_lines("a = record.created\nrecord.created = 3\n", ["created"]) == (1,)


def test_what_workers_read_of_a_shared_value_is_named_and_not_who_writes_it() -> None:
    """Nor what the program itself reads at the end, outside of functions."""
    source = (
        "level = Value('d')\ndef item(self):\n    return 2 * self.level.value\nlevel.value = 1\nprint(level.value)\n"
    )
    assert value_lines(source) == (3,)
    assert value_lines("def (") == ()


def test_who_looks_again_and_again_whether_something_is_there_is_named() -> None:
    """How often it looks varies, whatever it does meanwhile; a wait has no loop."""
    source = "p = Popen(w)\nwhile not path.exists():\n    f()\nwhile p.poll() is None: f()\nwhile left:\n    p.wait()\n"
    assert waits_in_turns(source) == (2, 4)
    assert waits_in_turns("while not stop.wait(0.1):\n    f()\nwhile not ready.wait():\n    f()\n") == (1,)
    assert interrupts("p.send_signal(signal.SIGUSR1)\nos.kill(pid, 9)\np.wait()\n") == (1, 2)


def test_all_that_begins_threads_is_named_for_a_loop_that_waits_for_them() -> None:
    """Classes of the file's own among them; nothing else that starts."""
    source = "class A(Process): ...\na = A()\na.start()\nThread(target=f).start()\nserver.start()\n"
    assert begins(source) == (2, 3, 4)
    assert begins("def (") == ()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    with open(p) as g:\n        t = read(g)\n    return t['a'] + t['b']\n", (4,)),
        ("def f():\n    for n, v in rows(p):\n        if n == 'Free':\n            return v\n", (3,)),
        ("def f():\n    for line in open(p):\n        if line.startswith('Free'):\n            use(line)\n", (3,)),
        ("def f():\n    t = read(open(p))\n    return t[k] == 1, 'a'\n", ()),
        ("def f():\n    with open(p) as g:\n        return read(g)\ndef h(t):\n    return t['a']\n", ()),
        ("t = 1\nt = read(open(p))\nx = t['b']\n", (3,)),
        ("def (", ()),
    ],
)
def test_where_a_figure_of_a_file_is_taken(source: str, found: tuple[int, ...]) -> None:
    """By its name, in the function that opens the file."""
    assert taken_at(source, 2) == found
