"""What experiments fix, as a program sees it that is started with it (envbuild/runtime/hook/fix_*.py)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.hook import fix_figures, fix_limits, fix_path, fix_ports
from envbuild.verification.masking.thread_lines import owners
from tests.support.cli import ROOT

_BEGIN = """\
import json, os, sys, types
sys.path.insert(0, {root!r})
from envbuild.runtime.hook import {modules}
from envbuild.runtime.hook.fix_callers import Callers
callers = Callers(lambda path: False, frozenset())
callers.is_project = lambda code: True
"""


def _found(modules: str, program: str) -> Any:
    code = _BEGIN.format(root=str(ROOT), modules=modules) + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.subprocess
def test_all_clocks_follow_the_setting() -> None:
    """Also those that take which clock, of processes, and of the resources that they used."""
    clocks = _found(
        "fix_clock",
        "import resource, time\n"
        "fix_clock.Clock(callers, f'{10**18}/{10**9}/1').install()\n"
        "one = [time.clock_gettime(time.CLOCK_BOOTTIME), os.times().user, os.times().elapsed]\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([*one, usage.ru_utime, usage.ru_stime, time.clock_gettime_ns(0)]))\n",
    )
    assert clocks == [10**9 + 1, 10**9 + 2, 10**9 + 3, 10**9 + 4, 4, 10**18 + 5 * 10**9]


@pytest.mark.subprocess
def test_the_time_that_a_child_used_follows_the_clock_too() -> None:
    """Where it is asked for with the child's end; how that was is real."""
    found = _found(
        "fix_clock",
        "import os\n"
        "fix_clock.Clock(callers, f'{10**18}/{10**9}/1').install()\n"
        "def child(code):\n"
        "    number = os.fork()\n"
        "    if not number: os._exit(code)\n"
        "    return number\n"
        "one, other = child(3), os.wait4(child(0), 0)\n"
        "_, status, usage = os.wait3(0)\n"
        "print(json.dumps([other[1], other[2].ru_utime, other[2].ru_stime, os.waitstatus_to_exitcode(status), "
        "usage.ru_utime]))\n",
    )
    assert found == [0, 10**9 + 1, 1, 3, 10**9 + 2]


@pytest.mark.subprocess
def test_a_line_that_gets_the_real_time_moves_no_other_lines_time() -> None:
    """Each other line has a time of its own: how often one asks may depend on the real time of the first."""
    program = (
        "import datetime, time\n"
        "callers.wanted = frozenset(['<string>:12'])\n"
        "fix_clock.Clock(callers).install()\n"
        "found, begin = [], time.perf_counter()\n"
        "for _ in range({count}):\n"
        "    found.append(time.time())\n"
        "    time.monotonic()\n"
        "day = datetime.datetime.now().timestamp()\n"
        "print(json.dumps([time.time_ns(), day, time.perf_counter() - begin, *found]))\n"
    )
    few, many = (_found("fix_clock", program.format(count=count)) for count in (2, 50))
    assert few[0] == many[0] == 1_700_000_000_001_015_000
    assert few[1] == many[1]
    assert few[2] == many[2] > 0
    assert min(few[3:] + many[3:]) > 1_790_000_000


@pytest.mark.subprocess
def test_another_stream_of_entropy_is_noted() -> None:
    """With a stream, what was drawn is in the record; without, it is not, and the stream is the usual one."""
    program = (
        "import secrets\n"
        "process = types.SimpleNamespace(task='', seed=lambda name: 7)\n"
        "fix_entropy.Entropy(process, callers, {stream!r}).install()\n"
        "print(json.dumps([secrets.token_hex(8), [e.get('drawn') for e in callers.as_list()]]))\n"
    )
    one, two, usual = (_found("fix_entropy", program.format(stream=stream)) for stream in ("1", "2", ""))
    assert [each[0] in (each[1][-1] or []) for each in (one, two)] == [True, True]
    assert len({one[0], two[0], usual[0]}) == 3
    assert usual[1] == [None]


@pytest.mark.subprocess
def test_each_line_has_a_stream_of_entropy_of_its_own() -> None:
    """How often one draws may depend on what it gets; the others would seem to depend on that line."""
    program = (
        "process = types.SimpleNamespace(task='', seed=lambda name: 7)\n"
        "fix_entropy.Entropy(process, callers).install()\n"
        "found = [os.urandom(4).hex() for _ in range({count})]\n"
        "print(json.dumps([found[:2], os.urandom(4).hex(), open('/dev/urandom', 'rb').read(4).hex()]))\n"
    )
    few, many = (_found("fix_entropy", program.format(count=count)) for count in (2, 9))
    assert few == many
    assert len({*few[0], *few[1:]}) == 4


@pytest.mark.subprocess
def test_what_is_seeded_after_its_import_is_no_cause() -> None:
    """What ``numpy.random`` draws when it is imported; it counts afterwards, and so does what only has such a name."""
    program = (
        "process = types.SimpleNamespace(task='', seed=lambda name: 7)\n"
        "fix_entropy.Entropy(process, callers).install()\n"
        "module = types.ModuleType('numpy.random')\n"
        "module.__spec__ = types.SimpleNamespace(_initializing={initializing}, parent='numpy')\n"
        "if {there}: sys.modules['numpy.random'] = module\n"
        "draw = compile('import os; drawn = os.urandom(4).hex()', 'a.py', 'exec')\n"
        "exec(draw, module.__dict__)\n"
        "print(json.dumps([module.drawn, [each['module'] for each in callers.as_list()]]))\n"
    )
    importing, done, named = (
        _found("fix_entropy", program.format(initializing=initializing, there=there))
        for initializing, there in ((True, True), (False, True), (True, False))
    )
    assert importing[1] == []
    assert done[1] == named[1] == ["numpy.random"]
    assert importing[0] != done[0], "it has the stream of no line"
    assert importing == _found("fix_entropy", program.format(initializing=True, there=True))


@pytest.mark.subprocess
def test_measures_of_memory_are_the_number_that_is_given() -> None:
    """Below /proc and as ``getrusage`` has it; process numbers stay as they are."""
    status, usage, same, load, names = _found(
        "fix_figures",
        "import resource, struct\n"
        "before = os.getpid()\n"
        "fix_figures.Figures(callers, '1048576').install()\n"
        "text = next(line for line in open('/proc/self/status') if line.startswith('VmRSS'))\n"
        "names = [line.split()[-1] for line in open('/proc/self/maps') if '.so' in line]\n"
        "used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(json.dumps([text, used, os.getpid() == before, os.getloadavg()[0], names]))\n",
    )
    assert load == 1048576.0
    assert names, "libraries are loaded"
    assert all(map(os.path.exists, names)), "a library is found by its name, which holds numbers"
    assert status.split() == ["VmRSS:", "1048576", "kB"]
    assert (usage, same) == (1048576, True)


@pytest.mark.subprocess
def test_ports_that_the_system_chooses_are_of_one_row() -> None:
    """Of servers, and of who connects without one; a port of the program's own stays, and what is taken is skipped."""
    ports, own, client, datagram, taken = _found(
        "fix_figures",
        "import socket\n"
        "fix_figures.Figures(callers, '1048576').install()\n"
        "local = '127.0.0.1'\n"
        "servers = [socket.create_server((local, 0)) for _ in range(2)]\n"
        "own = socket.create_server((local, servers[1].getsockname()[1] + 1))\n"
        "client = socket.create_connection(own.getsockname())\n"
        "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "sender.sendto(b'x', own.getsockname())\n"
        "unix = socket.socketpair()\n"
        "try:\n    socket.create_server(own.getsockname())\n"
        "except OSError as error:\n    taken = error.errno\n"
        "found = ([s.getsockname()[1] for s in servers], own, client, sender)\n"
        "print(json.dumps([found[0], *(s.getsockname()[1] for s in found[1:]), taken]))\n",
    )
    first = fix_ports.first_port(1 << 20)
    assert all(first <= port < first + 20 for port in (*ports, own, client, datagram))
    assert ports[0] < ports[1] < own < client < datagram
    assert taken == errno.EADDRINUSE


def test_the_memory_of_the_machine_stays_what_it_is() -> None:
    """It does not vary, and programs give each worker a part of it; only where it comes first, as in meminfo."""
    data = b"MemTotal:  16384 kB\nMemFree:  812 kB\n"
    assert fix_figures._as_one(data, b"1") == b"MemTotal:  16384 kB\nMemFree:  1 kB\n"
    assert fix_figures._as_one(b"VmRSS:  812 kB\n" + data, b"1").count(b"16384") == 0


@pytest.mark.subprocess
def test_a_figure_is_noted_with_what_is_real() -> None:
    """So that one which is the same in all runs is not taken for a cause; the real one is in the digest alone."""
    number, (entry,) = _found(
        "fix_figures",
        "fix_figures.Figures(callers).install()\nprint(json.dumps([os.getpid(), callers.as_list()]))\n",
    )
    assert number == 1
    assert entry["call"] == "os.getpid"
    assert len(entry["values"]) == 8


@pytest.mark.subprocess
def test_output_of_programs_is_noted_by_what_they_were_given() -> None:
    """Same words, same input, same output: same digests; where it is not read nothing is noted."""
    entries = _found(
        "fix_programs",
        "import subprocess\n"
        "fix_programs.install(callers)\n"
        "for text in ('a', 'a', 'b'):\n"
        "    name = 'run_' + text\n"
        '    exec(f\'subprocess.run(["/bin/cat", "-"], input={text!r}, capture_output=True, text=True)\')\n'
        "subprocess.run(['/bin/true'])\n"
        "print(json.dumps(callers.as_list()))\n",
    )
    assert {entry["call"] for entry in entries} == {"cat -"}
    assert sum(entry["count"] for entry in entries) == 3
    assert all(len(entry["given"]) == len(entry["values"]) == 8 for entry in entries)


@pytest.mark.subprocess
def test_processes_are_begun_one_after_another() -> None:
    """Each has ended before the next begins, whichever way they were made, and the lines are noted."""
    found, calls = _found(
        "fix_order",
        "import multiprocessing, time\n"
        "fix_order.install(callers)\n"
        "context = multiprocessing.get_context('fork')\n"
        "out = context.SimpleQueue()\n"
        "def work(number):\n"
        "    time.sleep(0.05 * (3 - number))\n"
        "    out.put(number)\n"
        "children = [context.Process(target=work, args=(number,)) for number in range(3)]\n"
        "for child in children:\n"
        "    child.start()\n"
        "print(json.dumps([[out.get() for _ in children], [each['call'] for each in callers.as_list()]]))\n",
    )
    assert found == [0, 1, 2]
    assert calls == ["multiprocessing.Process.start"]


_TAKERS = """\
import multiprocessing, queue, threading, time
fix_order.install(callers)
def work(tasks, out):
    while (number := tasks.get()) is not None:
        time.sleep(0.002 * (number % 5))
        out.put(number)
"""


@pytest.mark.subprocess
def test_threads_that_take_from_one_queue_take_turns() -> None:
    """What is put in first is done first, and nobody waits for ever."""
    found = _found(
        "fix_order",
        _TAKERS + "tasks, out = queue.Queue(), queue.Queue()\n"
        "threads = [threading.Thread(target=work, args=(tasks, out)) for _ in range(4)]\n"
        "for each in threads:\n"
        "    each.start()\n"
        "for number in (*range(20), *[None] * 4):\n"
        "    tasks.put(number)\n"
        "for each in threads:\n"
        "    each.join()\n"
        "print(json.dumps([out.get() for _ in range(20)]))\n",
    )
    assert found == [*range(20)]


@pytest.mark.subprocess
def test_threads_that_take_from_a_queue_of_c_take_turns() -> None:
    """The first one takes all; pools of the standard library, which have such queues, go on as they do."""
    found = _found(
        "fix_order",
        "import queue, threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "fix_order.install()\n"
        "found, tasks = [], queue.SimpleQueue()\n"
        "def work(number):\n"
        "    while (task := tasks.get()) is not None: found.append([number, task])\n"
        "threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]\n"
        "for each in threads: each.start()\n"
        "for number in [*range(50), None, None, None]: tasks.put(number)\n"
        "for each in threads: each.join()\n"
        "with ThreadPoolExecutor(3) as pool: squares = list(pool.map(lambda number: number**2, range(4)))\n"
        "print(json.dumps([found, squares]))\n",
    )
    assert found == [[[0, number] for number in range(50)], [0, 1, 4, 9]]


@pytest.mark.subprocess
def test_children_that_a_program_forks_end_one_after_another() -> None:
    """Who asks for any child gets them in the order in which they were forked, with what each ended with."""
    found = _found(
        "fix_order",
        "import time\n"
        "fix_order.install(callers)\n"
        "for number in range(4):\n"
        "    if not os.fork():\n"
        "        time.sleep(0.2 - number / 20)\n"
        "        os._exit(number)\n"
        "ends = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(4)]\n"
        "print(json.dumps([ends, [each['call'] for each in callers.as_list()]]))\n",
    )
    assert found == [[0, 1, 2, 3], ["os.fork"]]


_SERVER = """\
import multiprocessing, multiprocessing.connection, select, selectors, time
from multiprocessing import connection
fix_order.install()
def work(number, pipe):
    for turn in range(3):
        time.sleep((0.2 - number / 20) if turn else 0)
        pipe.send(number)
        pipe.recv()
    pipe.send(None)
def by_wait(pipes):
    return connection.wait(pipes)
def by_wait_now(pipes):
    return connection.wait(pipes, 0)
def by_select(pipes):
    return select.select(pipes, [], [])[0]
def by_selector(pipes):
    with selectors.DefaultSelector() as selector:
        for pipe in pipes: selector.register(pipe, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select()]
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("way", ["by_wait", "by_wait_now", "by_select", "by_selector"])
def test_who_waits_for_what_is_ready_first_gets_all_in_one_order(way: str) -> None:
    """Pipes are served in the order in which the program named them, whoever was ready first."""
    found = _found(
        "fix_order",
        _SERVER + "context = multiprocessing.get_context('fork')\n"
        "pairs = [context.Pipe() for _ in range(3)]\n"
        "for number, (_, end) in enumerate(pairs):\n"
        "    context.Process(target=work, args=(number, end), daemon=True).start()\n"
        "pipes, found = [pair[0] for pair in pairs], []\n"
        "while pipes:\n"
        f"    for pipe in {way}(pipes):\n"
        "        value = pipe.recv()\n"
        "        found.append(value)\n"
        "        if value is None: pipes.remove(pipe)\n"
        "        else: pipe.send(value)\n"
        "print(json.dumps(found))\n",
    )
    assert found == [0, 1, 2] * 3 + [None] * 3


@pytest.mark.subprocess
def test_who_is_never_ready_is_waited_for_once() -> None:
    """A listening socket that nobody connects to any more costs patience once, and not in each round."""
    spent, patience = _found(
        "fix_order",
        "import select, socket, time\n"
        "fix_order.install()\n"
        "silent, (one, other) = socket.socketpair(), socket.socketpair()\n"
        "begin = time.monotonic()\n"
        "for _ in range(4):\n"
        "    other.send(b'x')\n"
        "    assert select.select([silent[0], one], [], []) == ([one], [], [])\n"
        "    one.recv(1)\n"
        "print(json.dumps([time.monotonic() - begin, fix_order._PATIENCE]))\n",
    )
    assert patience <= spent < 2 * patience


@pytest.mark.subprocess
def test_packages_threads_move_no_fixed_clock() -> None:
    """A kernel looks for its parent once in a second: how often in a run follows the load. Its waits have an end."""
    program = (
        "import threading, time\n"
        "fix_clock.Clock(callers).install()\n"
        "def of(file, text):\n"
        "    names = {}\n"
        "    exec(compile(text, file, 'exec'), names)\n"
        "    return names['f']\n"
        "poll = of('/env/site-packages/ipykernel/parentpoller.py',\n"
        "    'import time\\ndef f():\\n    end = time.time() + 0.01\\n    while time.time() < end: time.sleep(0.01)')\n"
        "cell = of('/tmp/ipykernel_7/1.py', 'import time\\ndef f(): time.sleep(0.01)')\n"
        "call = of('/env/site-packages/package/calls.py', 'def f(function): function()')\n"
        "passed = []\n"
        "for target, given in ((poll, ()), (cell, ()), (call, (cell,))):\n"
        "    begin = time.time_ns()\n"
        "    thread = threading.Thread(target=target, args=given)\n"
        "    thread.start(); thread.join()\n"
        "    passed.append(time.time_ns() - begin)\n"
        "begin = time.time_ns()\n"
        "poll()\n"
        "passed.append(time.time_ns() - begin)\n"
        "print(json.dumps(passed))\n"
    )
    tick, slept = 1_000_000, 10_000_000
    assert _found("fix_clock", program) == [tick, tick + slept, tick + slept, 4 * tick + slept]


@pytest.mark.subprocess
def test_processes_that_take_from_one_queue_take_turns() -> None:
    """As threads; a pool of ``multiprocessing`` has one worker."""
    found, workers = _found(
        "fix_order",
        _TAKERS + "import os\n"
        "context = multiprocessing.get_context('fork')\n"
        "tasks, out = context.Queue(), context.Queue()\n"
        "children = [context.Process(target=work, args=(tasks, out)) for _ in range(4)]\n"
        "for each in children:\n"
        "    each.start()\n"
        "for number in (*range(20), *[None] * 4):\n"
        "    tasks.put(number)\n"
        "found = [out.get() for _ in range(20)]\n"
        "for each in children:\n"
        "    each.join()\n"
        "with context.Pool(3) as pool:\n"
        "    workers = {pool.apply(os.getpid) for _ in range(6)}\n"
        "print(json.dumps([found, len(workers)]))\n",
    )
    assert (found, workers) == ([*range(20)], 1)


@pytest.mark.subprocess
def test_the_time_of_an_event_loop_goes_on_by_rounds_and_waits() -> None:
    """Sleeps take no time, and timers come in their order after the same number of rounds."""
    program = (
        "import asyncio, time\n"
        "fix_loop.LoopTime(callers).install()\n"
        "async def main():\n"
        "    loop, stop, rounds = asyncio.get_running_loop(), asyncio.Event(), 0\n"
        "    begin = loop.time()\n"
        "    loop.call_later(0.3, stop.set)\n"
        "    while not stop.is_set():\n"
        "        rounds += 1\n"
        "        await asyncio.sleep(0)\n"
        "    await asyncio.sleep(3600)\n"
        "    try:\n"
        "        await asyncio.wait_for(asyncio.sleep(7200), 3600)\n"
        "    except asyncio.TimeoutError:\n"
        "        rounds += 1000\n"
        "    child = await asyncio.create_subprocess_exec('/bin/true')\n"
        "    await child.wait()\n"
        "    return begin, rounds, loop.time() - begin > 7200\n"
        "print(json.dumps([asyncio.run(main()), [each['call'] for each in callers.as_list()]]))\n"
    )
    one, other = _found("fix_loop", program), _found("fix_loop", program)
    assert one[0] == other[0]
    assert one[0][1] > 1200
    assert one[0][2] is True
    assert {"asyncio loop.time", "asyncio loop.call_later"} <= {*one[1]}


@pytest.mark.subprocess
def test_a_program_gets_the_machines_time_where_only_the_order_is_fixed() -> None:
    """Timers that it sets by that time come when they are due."""
    real, waited = _found(
        "fix_loop",
        "import asyncio, time\n"
        "fix_loop.LoopTime(None).install()\n"
        "async def main():\n"
        "    loop, done = asyncio.get_running_loop(), asyncio.Event()\n"
        "    real = abs(loop.time() - time.monotonic())\n"
        "    loop.call_at(loop.time() + 3600, done.set)\n"
        "    begin = time.monotonic()\n"
        "    await done.wait()\n"
        "    return real, time.monotonic() - begin\n"
        "print(json.dumps(asyncio.run(main())))\n",
    )
    assert real < 60
    assert waited < 60


@pytest.mark.subprocess
def test_a_line_with_the_real_time_has_the_loop_follow_it() -> None:
    """From there on rounds take as long as they do."""
    taken = _found(
        "fix_loop",
        "import asyncio, time\n"
        "callers.wanted = frozenset(['<string>:12'])\n"
        "fix_loop.LoopTime(callers).install()\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    loop.call_later(0, time.sleep, 0)\n"
        "    begin = time.monotonic()\n"
        "    await asyncio.sleep(0.05)\n"
        "    return time.monotonic() - begin\n"
        "print(json.dumps(asyncio.run(main())))\n",
    )
    assert taken >= 0.05


_NATIVE = """\
import ctypes, sqlite3, time
process = types.SimpleNamespace(task='', seed=lambda name: 7)
clock, entropy = fix_clock.Clock(callers), fix_entropy.Entropy(process, callers)
fix_native.Native(callers, clock, entropy).install()
libc = ctypes.CDLL(None)
"""


@pytest.mark.subprocess
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code")
def test_what_c_code_asks_for_is_fixed_too() -> None:
    """Dates for SQLite and ctypes, and entropy; the interpreter's own waiting keeps the real time."""
    program = _NATIVE + (
        "import threading\n"
        "spec = (ctypes.c_long * 2)()\n"
        "libc.clock_gettime(1, spec)\n"
        "(day,) = sqlite3.connect(':memory:').execute(\"select julianday('now')\").fetchone()\n"
        "begin = time.monotonic()\n"
        "threading.Event().wait(0.05)\n"
        "data = ctypes.create_string_buffer(8)\n"
        "libc.getrandom(data, 8, 0)\n"
        "print(json.dumps([[spec[0], libc.time(None), day], data.raw.hex(), time.monotonic() - begin]))\n"
    )
    (dates, drawn, waited), (_, again, _) = (_found("fix_clock, fix_entropy, fix_native", program) for _ in range(2))
    assert dates[:2] == [1_700_000_000, 1_700_000_000]
    assert dates[2] == pytest.approx(2460263.4259)
    assert drawn == again
    assert waited >= 0.05


@pytest.mark.subprocess
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code")
def test_lines_that_ask_through_c_code_are_noted() -> None:
    """With the line of the program that runs, which may get what is real."""
    calls, real = _found(
        "fix_clock, fix_entropy, fix_native",
        "callers.wanted = frozenset(['<string>:14'])\n" + _NATIVE + "libc.time(None)\n"
        "real = libc.time(None)\n"
        "print(json.dumps([[[e['call'], e['line']] for e in callers.as_list()], real]))\n",
    )
    assert calls == [["time of the C library", 13], ["time of the C library", 14]]
    assert real > 1_790_000_000


@pytest.mark.subprocess
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code")
def test_entropy_by_number_of_the_system_call_is_fixed_too() -> None:
    """As DuckDB asks for it; all other calls, those with six arguments and those that fail, stay what they are."""
    program = _NATIVE.replace("CDLL(None)", "CDLL(None, use_errno=True)") + (
        "import mmap, os, tempfile\n"
        "libc.syscall.restype = ctypes.c_long\n"
        "libc.syscall.argtypes = (ctypes.c_long,) * 7\n"
        "call = lambda *given: libc.syscall(*given, *(0,) * (7 - len(given)))\n"
        "data = ctypes.create_string_buffer(16)\n"
        "size = call(318, ctypes.addressof(data), 16)\n"
        "with tempfile.TemporaryFile() as file:\n"
        "    file.write(b'x' * 8192)\n"
        "    file.flush()\n"
        "    at = call(9, 0, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 4096)\n"
        "    text = ctypes.string_at(at, 4).decode()\n"
        "wrong = call(3, 99999), ctypes.get_errno()\n"
        "made = [[e['call'], e['suspect']] for e in callers.as_list()]\n"
        "same = call(39) == os.getpid()\n"
        "print(json.dumps([data.raw.hex(), [size, same, text, *wrong], made]))\n"
    )
    (drawn, rest, made), (again, *_) = (_found("fix_clock, fix_entropy, fix_native", program) for _ in range(2))
    assert rest == [16, True, "xxxx", -1, 9]
    assert drawn == again != "0" * 32
    assert ["getrandom by syscall()", "entropy"] in made


@pytest.mark.subprocess
def test_garbage_is_collected_only_where_the_program_asks_for_it() -> None:
    """So that weak references show the same in each run, whoever else makes objects."""
    alive = _found(
        "fix",
        "import weakref\n"
        "os.environ[fix.VARIABLE] = 'collection'\n"
        "fix.begin(types.SimpleNamespace(observer=types.SimpleNamespace(within=lambda path: False)))\n"
        "import gc\n"
        "gc.enable()\n"
        "class Node:\n"
        "    def __init__(self):\n"
        "        self.me = self\n"
        "alive = weakref.WeakSet()\n"
        "for _ in range(5000):\n"
        "    alive.add(Node())\n"
        "found = [len(alive)]\n"
        "gc.collect()\n"
        "print(json.dumps([*found, len(alive)]))\n",
    )
    assert alive == [5000, 0]


@pytest.mark.subprocess
def test_a_profiler_in_c_counts_ticks_of_a_fixed_clock() -> None:
    """What takes long by ``cProfile`` is the same in each run, unless its line gets the real time."""
    program = (
        "{more}\n"
        "fix_clock.Clock(callers).install()\n"
        "import cProfile, pstats\n"
        "profile = cProfile.Profile()\n"
        "profile.runcall(sorted, range(9), key=lambda each: -each)\n"
        "print(json.dumps(sorted(each[2:4] for each in pstats.Stats(profile).stats.values())))\n"
    )
    first, again = (_found("fix_clock", program.format(more="")) for _ in range(2))
    assert first == again
    assert first[-1] == pytest.approx([0.01, 0.019])
    real = _found("fix_clock", program.format(more="callers.wanted = frozenset(['<string>:10'])"))
    assert max(each[1] for each in real) < 0.009


@pytest.mark.subprocess
def test_room_on_disks_is_a_figure() -> None:
    """Other programs on the machine take and free it."""
    program = (
        "import shutil\n"
        "fix_figures.Figures(callers).install()\n"
        "usage = shutil.disk_usage('/')\n"
        "print(json.dumps([usage.total / usage.free, [each['call'] for each in callers.as_list()]]))\n"
    )
    half, calls = _found("fix_figures", program)
    assert half == pytest.approx(2)
    assert calls == ["shutil.disk_usage"]


@pytest.mark.subprocess
def test_modules_that_fixing_the_order_imports_get_the_fixed_clock() -> None:
    """``logging`` remembers when it was imported, which is in each record that it makes."""
    program = (
        "process = types.SimpleNamespace(observer=types.SimpleNamespace(within=lambda path: False), task='',\n"
        "    seed=lambda name: 7, guarded=lambda name, call, **options: call())\n"
        "os.environ['ENVBUILD_FIX'] = 'order,clock,entropy'\n"
        "fix.begin(process)\n"
        "import logging, multiprocessing\n"
        "record = logging.makeLogRecord({})\n"
        "print(json.dumps([record.relativeCreated, bytes(multiprocessing.current_process().authkey).hex()]))\n"
    )
    (age, key), again = (_found("fix", program) for _ in range(2))
    assert 0 < age < 1000
    assert [age, key] == again


_WAITS = """\
import asyncio, queue, subprocess, threading, time
callers = Callers(lambda path: path.endswith("program.py"), frozenset(REAL))
fix_limits.Limits(callers).install()
code = '''
import asyncio, multiprocessing, queue, subprocess, sys, threading, time
def late(): time.sleep(0.3); values.put(1)
values, found = queue.Queue(), []
thread = threading.Thread(target=late); thread.start()
try: found.append(values.get(timeout=0.01))
except queue.Empty: found.append(None)
thread.join(0.01); found.append(thread.is_alive())
async def task(): await asyncio.sleep(0.3); return 2
async def main(): return await asyncio.wait_for(task(), 0.01)
try: found.append(asyncio.run(main()))
except asyncio.TimeoutError: found.append(None)
program = "import sys, time; time.sleep(0.3); print(sys.stdin.read(), end='')"
begun = dict(input="3", capture_output=True, text=True)
try: found.append(subprocess.run([sys.executable, "-c", program], **begun, timeout=0.01).stdout)
except subprocess.TimeoutExpired: found.append(None)
mine, theirs = multiprocessing.Pipe()
threading.Thread(target=lambda: (time.sleep(0.3), theirs.send(4))).start()
found.append(mine.poll(0.01))
'''
names = {}
exec(compile(code, "/project/program.py", "exec"), names)
lines = sorted({each["place"] for each in callers.as_list() if each["suspect"] == "limits"})
print(json.dumps([names["found"], lines]))
"""


@pytest.mark.subprocess
def test_limits_of_time_are_not_reached() -> None:
    """Whatever keeps to them: threads, queues, tasks of asyncio, programs, pipes; a line may keep its own."""
    found, lines = _found("fix_limits", _WAITS.replace("REAL", "()"))
    assert found == [1, False, 2, "3", True]
    assert lines == [f"/project/program.py:{number}" for number in (10, 15, 19, 6, 8)]
    found, _ = _found("fix_limits", _WAITS.replace("REAL", "['/project/program.py:6', '/project/program.py:10']"))
    assert found == [None, False, None, "3", True]


_OF_C = """code = '''
import multiprocessing, socket, threading, time
found = []
def later(do): threading.Thread(target=lambda: (time.sleep(0.3), do())).start()
for lock in (threading.Lock(), multiprocessing.Lock()):
    lock.acquire(); later(lock.release)
    found.append(lock.acquire(timeout=0.01))
mine, theirs = socket.socketpair()
mine.settimeout(0.01); later(lambda: theirs.send(b'5'))
try: found.append(mine.recv(9).decode())
except TimeoutError: found.append(None)
found.append(mine.gettimeout())
found.append(lock.acquire(False))
'''
callers = Callers(lambda path: path.endswith('program.py'), frozenset(REAL))
fix_limits.Limits(callers).install()
names = {}
exec(compile(code, "/project/program.py", "exec"), names)
lines = sorted({each["place"] for each in callers.as_list() if each["suspect"] == "limits"})
print(json.dumps([names["found"], lines]))
"""


@pytest.mark.subprocess
def test_limits_that_c_keeps_to_are_not_reached() -> None:
    """Locks that are acquired with a limit, and sockets, whose line is the one that set it; a line may keep its own."""
    found, lines = _found("fix_limits", _OF_C.replace("REAL", "()"))
    assert found == [True, True, "5", 0.01, False]
    assert lines == [f"/project/program.py:{number}" for number in (7, 9)]
    found, _ = _found("fix_limits", _OF_C.replace("REAL", "['/project/program.py:7', '/project/program.py:9']"))
    assert found == [False, False, None, 0.01, False]


_SENT = """code = '''
import socket, threading, time
found = []
mine, theirs = socket.socketpair()
for each, option in ((mine, socket.SO_SNDBUF), (theirs, socket.SO_RCVBUF)):
    each.setsockopt(socket.SOL_SOCKET, option, 4096)
mine.settimeout(0.05)
def received():
    time.sleep(0.3)
    left = 1_000_000
    while left: left -= len(theirs.recv(65536))
    found.append("all")
taker = threading.Thread(target=received, daemon=True)
taker.start()
try: mine.sendall(bytes(1_000_000)); taker.join()
except TimeoutError: found.append("a part")
found.append(mine.gettimeout())
'''
callers = Callers(lambda path: path.endswith('program.py'), frozenset(REAL))
fix_limits.Limits(callers).install()
names = {}
exec(compile(code, "/project/program.py", "exec"), names)
print(json.dumps(names["found"]))
"""


@pytest.mark.subprocess
def test_what_sockets_send_has_more_time_from_the_beginning() -> None:
    """All of it arrives once; a line may keep its own limit."""
    assert _found("fix_limits", _SENT.replace("REAL", "()")) == ["all", 0.05]
    assert _found("fix_limits", _SENT.replace("REAL", "['/project/program.py:7']")) == ["a part", 0.05]


@pytest.mark.subprocess
def test_a_wait_that_is_always_in_vain_has_an_end() -> None:
    """A program that asks now and then whether others are done waits for little longer than without the experiment."""
    found = _found(
        "fix_limits",
        "import threading, time\n"
        "callers = Callers(lambda path: path.endswith('program.py'), frozenset())\n"
        "fix_limits.Limits(callers).install()\n"
        "names = {'event': threading.Event()}\n"
        "begin = time.monotonic()\n"
        "exec(compile('for _ in range(20): event.wait(0.01)', '/project/program.py', 'exec'), names)\n"
        "print(json.dumps(time.monotonic() - begin))\n",
    )
    assert fix_limits._LINE <= found < fix_limits._LINE + 3


@pytest.mark.subprocess
def test_packages_keep_their_limits() -> None:
    """They wait in threads of their own for nothing but the next moment."""
    found = _found(
        "fix_limits",
        "import threading, time\n"
        "fix_limits.Limits(callers).install()\n"
        "begin = time.monotonic()\n"
        "threading.Event().wait(0.01)\n"
        "print(json.dumps(time.monotonic() - begin))\n",
    )
    assert found < fix_limits._PATIENCE


@pytest.mark.subprocess
@pytest.mark.parametrize("interval", ["", ", 0.05"], ids=["once", "again and again"])
@pytest.mark.parametrize("kind", ["REAL", "VIRTUAL", "PROF"])
def test_an_alarm_comes_later(kind: str, interval: str) -> None:
    """So that what it would have interrupted is done; timers of used CPU time too."""
    found = _found(
        "fix_limits",
        "import signal, time\n"
        "callers = Callers(lambda path: path.endswith('program.py'), frozenset())\n"
        "fix_limits.Limits(callers).install()\n"
        "code = '''\n"
        "import signal, time\n"
        "found = []\n"
        "for each in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF):\n"
        "    signal.signal(each, lambda *_: found.append(1))\n"
        f"signal.setitimer(signal.ITIMER_{kind}, 0.05{interval})\n"
        "begin = time.process_time()\n"
        "while time.process_time() < begin + 0.3: pass\n"
        f"signal.setitimer(signal.ITIMER_{kind}, 0)\n"
        "'''\n"
        "names = {}\n"
        "exec(compile(code, '/project/program.py', 'exec'), names)\n"
        "print(json.dumps(names['found']))\n",
    )
    assert found == []


@pytest.mark.subprocess
def test_a_descriptor_of_the_device_gives_the_stream() -> None:
    """Another one for each line, the same in each run; a line that gets what is real gets the device."""
    program = (
        "callers.wanted = frozenset(WANTED)\n"
        "seeded = types.SimpleNamespace(task='', seed=lambda name: 7)\n"
        "fix_entropy.Entropy(seeded, callers).install()\n"
        "one = os.open('/dev/urandom', os.O_RDONLY)\n"
        "other = os.open('/dev/urandom', os.O_RDONLY)\n"
        "print(json.dumps([os.read(one, 8).hex(), os.read(one, 8).hex(), os.read(other, 8).hex()]))\n"
    )
    first, again, real = (
        _found("fix_entropy", program.replace("WANTED", wanted)) for wanted in ("()", "()", "['<string>:10']")
    )
    assert first == again
    assert len({*first}) == 3
    assert first[:2] != real[:2]
    assert first[2] == real[2]


@pytest.mark.subprocess
def test_tasks_are_put_in_order_only_where_the_order_is_fixed() -> None:
    """Set-ups of frameworks see by one module whether it is: it is not there in other experiments."""
    program = (
        "callers.clear()\n"
        "os.environ['ENVBUILD_FIX'] = 'programs,limits@60'\n"
        "process = types.SimpleNamespace(observer=types.SimpleNamespace(within=lambda path: False))\n"
        "fix.begin(process)\n"
        "print(json.dumps(sorted(name for name in sys.modules if name.endswith('.fix_order'))))\n"
    )
    assert _found("fix", program) == []
    assert _found("fix", program.replace("limits", "order")) == ["envbuild.runtime.hook.fix_order"]


@pytest.mark.subprocess
def test_copies_of_multiprocessing_keep_no_limits_either() -> None:
    """That of pathos is imported later, and is set up when it is."""
    found = _found(
        "fix_limits",
        "from queue import Empty\n"
        "from envbuild.runtime.hook.frameworks import for_multiprocess\n"
        "class Queue:\n"
        "    def get(self, block=True, timeout=None):\n"
        "        if timeout < 1: raise Empty\n"
        "        return timeout\n"
        "copy = types.SimpleNamespace(Queue=Queue, __name__='copy.queues')\n"
        "for_multiprocess.set_up_queues(copy, None)\n"
        "try: Queue().get(timeout=0.1)\n"
        "except Empty: print('[', end='')\n"
        "callers = Callers(lambda path: path.endswith('program.py'), frozenset())\n"
        "fix_limits.Limits(callers).install()\n"
        "for_multiprocess.set_up_queues(copy, None)\n"
        "names = {'queue': Queue()}\n"
        "exec(compile('found = queue.get(timeout=0.1)', '/project/program.py', 'exec'), names)\n"
        "print(names['found'], ']')\n",
    )
    assert found == [fix_limits._PATIENCE]


@pytest.mark.subprocess
def test_results_that_are_gone_through_come_after_their_limit() -> None:
    """``map`` and ``as_completed`` ask for the time between results themselves; a line may keep its limit."""
    text = (
        "from concurrent.futures import ThreadPoolExecutor, TimeoutError, as_completed\n"
        "import time\n"
        "def work(n): time.sleep(0.1); return n\n"
        "found = []\n"
        "with ThreadPoolExecutor(1) as pool:\n"
        "    try:\n"
        "        for each in pool.map(work, range(4), timeout=0.15): found.append(each)\n"
        "    except TimeoutError: found.append('late')\n"
        "with ThreadPoolExecutor(1) as pool:\n"
        "    try:\n"
        "        tasks = [pool.submit(work, n) for n in range(4)]\n"
        "        for each in as_completed(tasks, 0.15): found.append(each.result())\n"
        "    except TimeoutError: found.append('late')\n"
    )
    program = (
        f"text = {text!r}\n"
        "callers = Callers(lambda path: path.endswith('program.py'), frozenset(REAL))\n"
        "fix_limits.Limits(callers).install()\n"
        "names = {}\n"
        "exec(compile(text, '/project/program.py', 'exec'), names)\n"
        "lines = {each['place'] for each in callers.as_list() if each['suspect'] == 'limits'}\n"
        "print(json.dumps([names['found'], sorted(lines)]))\n"
    )
    found, lines = _found("fix_limits", program.replace("REAL", "()"))
    assert found == [0, 1, 2, 3, 0, 1, 2, 3]
    assert lines == ["/project/program.py:12", "/project/program.py:7"]
    found, _ = _found("fix_limits", program.replace("REAL", "['/project/program.py:7']"))
    assert found[-4:] == [0, 1, 2, 3]
    assert "late" in found


@pytest.mark.subprocess
def test_a_task_of_a_pool_has_ended_before_its_callback() -> None:
    """joblib's waits for a lock that whoever begins tasks has: each of them took three seconds in vain."""
    begin, found = _found(
        "fix_order",
        "import time, threading\n"
        "from multiprocessing.pool import ThreadPool\n"
        "fix_order.install()\n"
        "found, lock, begin = [], threading.Lock(), time.monotonic()\n"
        "def more(result):\n"
        "    with lock: found.append(result)\n"
        "with ThreadPool(3) as pool:\n"
        "    with lock: results = [pool.apply_async(int, (number,), callback=more) for number in range(4)]\n"
        "    for each in results: each.get(20)\n"
        "print(json.dumps([time.monotonic() - begin, found]))\n",
    )
    assert found == [*range(4)]
    assert begin < 3


@pytest.mark.subprocess
def test_tasks_that_callbacks_of_a_pool_begin_are_not_waited_for() -> None:
    """joblib begins the next task where the result of the last one is given: nothing else gives results then."""
    begin, found = _found(
        "fix_order",
        "import time, threading\n"
        "from multiprocessing.pool import ThreadPool\n"
        "fix_order.install()\n"
        "found, left, done, begin = [], list(range(6)), threading.Event(), time.monotonic()\n"
        "pool = ThreadPool(3)\n"
        "def more(result):\n"
        "    found.append(result)\n"
        "    if left: pool.apply_async(int, (left.pop(0),), callback=more)\n"
        "    elif len(found) == 6: done.set()\n"
        "pool.apply_async(int, (left.pop(0),), callback=more)\n"
        "done.wait(20)\n"
        "print(json.dumps([time.monotonic() - begin, found]))\n",
    )
    assert found == [*range(6)]
    assert begin < 3


@pytest.mark.subprocess
def test_lines_say_which_thread_or_task_printed_them() -> None:
    """Tasks of pools whichever thread does them, lines in pieces and several at once; not the first thread's."""
    program = """\
import sys, threading, asyncio
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
fix_lines.install()
class Own(threading.Thread):
    def run(self):
        print("own", 1)
def work(n):
    sys.stdout.write("a\\nb"); sys.stdout.write("c\\n"); print()
for each in (threading.Thread(target=work, args=(1,)), Own()):
    each.start(); each.join()
for count in (2, 1):
    with ThreadPoolExecutor(count) as pool:
        for n in range(2):
            pool.submit(print, "task", n).result()
    with ThreadPool(count) as pool:
        pool.map(lambda n: print("of map", n), range(1), chunksize=1)
        pool.apply(lambda: print("call"))
async def main():
    await asyncio.create_task(asyncio.to_thread(print, "other"), name="x")
asyncio.run(main())
print("first", "thread")
"""
    code = _BEGIN.format(root=str(ROOT), modules="fix_lines") + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, names = owners(done.stdout.encode())
    printed = text.decode().splitlines()
    of_pools = ["task 0", "task 1", "of map 0", "call"] * 2
    assert printed == ["a", "bc", "", "own 1", *of_pools, "other", "first thread"]
    first, second, *others = names
    assert [first, first] == [second, others[0]]
    assert len({first, *names[3:8]}) == 6, "each thread, and each task of two threads, has a name of its own"
    assert names[8] == names[9] != names[10] == names[11], "a pool of one thread has one"
    assert "/x/" in names[12]
    assert names[13:] == ["", ""]


_FOLLOWED = (
    "import tempfile\n"
    "from zlib import crc32\n"
    "def way(source):\n"
    "    folder = tempfile.mkdtemp()\n"
    "    file = '/workspace/train.py'\n"
    "    callers.is_project = lambda code: code.co_filename == file\n"
    "    fix_path.install(callers, folder, lambda: 0)\n"
    "    try:\n"
    "        exec(compile(source, file, 'exec'), {'__name__': '__main__'})\n"
    "    finally:\n"
    "        sys.settrace(None)\n"
    "    os._exit.__closure__[0].cell_contents.flush()\n"
    "    lines = {0: 0, **{crc32(f'{file}:{number}'.encode()): number for number in range(1, 40)}}\n"
    "    data = open(folder + '/path.bin', 'rb').read()\n"
    "    return [(strand, lines[place], value) for strand, place, value in fix_path.STEP.iter_unpack(data)]\n"
)
"""Returns the steps of a program."""


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a = 1\nb = {}\nc = a + b\n", 2),
        ("class A:\n    pass\na = A()\na.x = {}\nb = a.x\n", 4),
        ("found = []\nfor i in range(3):\n    found.append({} if i == 2 else 0)\n", 3),
        ("t = {{}}\nfor i in range(3):\n    t[i] = {} if i == 2 else 0\n", 3),
        ("import os\nx = 0\nwhile len(str({})) > x:\n    x += 1\ny = 1\n", 3),
        ("def f():\n    return {}\nif f() > 40:\n    pass\n", 2),
        ("def f(a, *, b):\n    pass\nx = 1\nf(1, b={})\n", 4),
        ("def g():\n    yield 1\n    yield {}\nfor x in g():\n    y = x\n", 3),
        ("for x in {{'a', 'b', {}}}:\n    pass\n", 1),
        ("s = {{'a', 'b', 'c', 'd'}} if {} == 10 else {{'d', 'c', 'b', 'a'}}\nx = sorted(s)\n", 0),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    x = await g()\n"
         "async def g():\n    return {}\nasyncio.run(f())\n", 6),
        ("try:\n    [][0 if {} == 10 else 'x']\nexcept Exception:\n    pass\n", 2),
        ("class A:\n    def __repr__(self):\n        return str({})\nx = A()\n", 0),
        ("import pathlib\nx = pathlib.Path(str({}))\n", 2),
        ("class A:\n    def __init__(self):\n        self.found = []\n    def add(self, x):\n"
         "        self.found.append(x)\nA().add({})\n", 6),
        ("found = []\nfound.append({})\nstr(found[:0])\n", 2),
        ("def f(found):\n    x = [{}]\n    found.extend(x)\nfound = []\nf(found)\nstr(found)\n", 2),
        ("import threading\nfound = []\nt = threading.Thread(target=lambda: found.append({}))\nt.start()\nt.join()\n"
         "str(found)\n", 6),
        ("import threading\nfound = [0]\ndef f(x):\n    found[0] = {}\nt = threading.Thread(target=f, args=(found,))\n"
         "t.start(); t.join()\nthreading.Thread(target=f, args=(found,))\nstr(found)\n", 8),
        ("import threading\nclass A:\n    n = 0\na = A()\nt = threading.Thread(target=lambda: setattr(a, 'n', {}))\n"
         "t.start()\nt.join()\nstr(a.n)\n", 8),
        ("import signal, os\nsignal.signal(signal.SIGUSR1, lambda n, f: None)\nfor i in range(3):\n"
         "    if i == ({} == 10):\n        os.kill(os.getpid(), signal.SIGUSR1)\n", 4),
    ],
)  # fmt: skip
def test_two_ways_part_where_something_gets_another_value(source: str, line: int) -> None:
    """Or where one goes on elsewhere: after the line that decides that. What a set has is known, its order is none."""
    sources = [source.format(10), source.format(99999)]
    ways = [_found("fix_path", f"{_FOLLOWED}print(json.dumps(way({each!r})))\n") for each in sources]
    found = next(
        (
            mine[1] if mine[1] == theirs[1] else ways[0][at - 1][1]
            for at, (mine, theirs) in enumerate(zip(*ways, strict=False))
            if mine != theirs
        ),
        0,
    )
    assert found == line


@pytest.mark.subprocess
def test_a_way_ends_in_a_child_and_has_an_end() -> None:
    """A child's steps are not the parent's, and a long way is cut off; the program's own trace comes after it."""
    found = _found(
        "fix_path",
        f"{_FOLLOWED}"
        "fix_path._STEPS = 50\n"
        "steps = way('''\nimport os\nif not os.fork():\n    x = 1\n    os._exit(0)\nos.wait()\nfor i in range(99):\n"
        "    y = i\n''')\n"
        "print(json.dumps([len(steps), 4 in {line for _, line, _ in steps}, os._exit.__qualname__, steps[-1][0]]))\n",
    )
    assert found == [51, False, "_exit", 3]


@pytest.mark.subprocess
def test_a_scheduler_follows_the_fixed_clock() -> None:
    """Which job is due does not depend on how long the others take."""
    program = (
        "import sched, time\n"
        "real = time.sleep\n"
        "fix_clock.Clock(callers).install()\n"
        "jobs, found = sched.scheduler(time.monotonic, time.sleep), []\n"
        "def job(name, left):\n"
        "    found.append(name)\n"
        "    if name == 'a':\n"
        "        real({pause})\n"
        "    if left:\n"
        "        jobs.enter(0.005 * len(name), 1, job, (name, left - 1))\n"
        "job('a', 6)\n"
        "job('bb', 3)\n"
        "jobs.run()\n"
        "print(json.dumps(found))\n"
    )
    fast, slow = (_found("fix_clock", program.format(pause=pause)) for pause in (0, 0.02))
    assert fast == slow
    assert sorted(fast) == ["a"] * 7 + ["bb"] * 4


@pytest.mark.subprocess
def test_a_way_ends_after_some_time_whoever_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that calls nothing but libraries is slowed no longer than others."""
    program = (
        "import itertools\n"
        "fix_path.install(callers, {folder}, itertools.count(0, 4).__next__)\n"
        "import json.decoder\n"
        "callers.is_project = lambda code: False\n"
        "for number in range(20_000):\n    json.loads('1')\n"
        "print(json.dumps([sys.gettrace() is None, os.path.getsize({folder} + '/path.bin')]))\n"
    ).format(folder="os.environ['WAY']")
    monkeypatch.setenv("WAY", str(tmp_path))
    assert _found("fix_path", program) == [True, fix_path.STEP.size]


@pytest.mark.subprocess
def test_what_a_handler_raises_reaches_a_program_that_is_followed() -> None:
    """A limit of time that raises is the program's; the way ends there, and says so."""
    source = (
        "import signal\nclass Late(Exception):\n    pass\ndef ring(number, frame):\n    raise Late\n"
        "signal.signal(signal.SIGALRM, ring)\nraised = 0\nwhile raised < 20:\n    try:\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0.001)\n        while True:\n"
        "            found = [[1, 2, 3], {'a': (1, 2)}, 'text' * 50]\n    except Late:\n        raised += 1\n"
    )
    steps = _found("fix_path", f"{_FOLLOWED}print(json.dumps(way({source!r})[-1][:1]))\n")
    assert steps[0] in (0, 3)


def test_no_code_of_the_program_is_called_for_a_digest() -> None:
    """Whatever its classes make of iteration, attributes, comparison and classes."""

    class Hostile(dict[str, int]):
        def _raise(self, *_: object) -> Any:
            raise AssertionError

        __iter__ = __len__ = __getitem__ = __hash__ = __eq__ = __repr__ = __bool__ = _raise

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    class Odd(list[int]):
        def __iter__(self) -> Any:
            raise AssertionError

    one, same, other = Hostile(a=1), Hostile(a=1), Hostile(a=2)
    assert fix_path.form(one) == fix_path.form(same) != fix_path.form(other)
    assert fix_path.form(Odd([1, 2])) == fix_path.form(Odd([1, 2])) != fix_path.form(Odd([2, 2]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (list(range(100)), [*range(99), 5]),
        (tuple(range(100)), (*range(99), 5)),
        (deque(range(100)), deque([*range(99), 5])),
        (dict.fromkeys(range(100)), dict.fromkeys([*range(99), 200])),
        ({1, 2}, {1, 3}),
        (2**5000, 2**5001),
        ([].append, {}.get),
        (b"a" * 5000, b"a" * 4999 + b"b"),
        (1, True),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}),
    ],
)
def test_digests_of_values(one: object, other: object) -> None:
    """Of long ones the first and the last items."""
    assert fix_path.form(one) == fix_path.form(one) != fix_path.form(other)
