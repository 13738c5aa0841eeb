"""What a program takes of others as far as these have come, and what answers say of the time."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.calls import calls

POLL = "while step():\n    if pipe.poll():\n        x = pipe.recv()\n"


@pytest.mark.parametrize(
    ("source", "name", "lines"),
    [
        (POLL, "poll() and recv()", [2]),
        (POLL.replace("poll()", "poll(0)"), "poll() and recv()", [2]),
        (POLL.replace("poll()", "poll(5.0)"), "poll() and recv()", []),
        ("while child.poll() is None:\n    time.sleep(1)\n", "poll() and recv()", []),
        ("seed = answer.headers['Date']\n", "headers Date", [1]),
        ("seed = answer.getheader('date')\n", "headers Date", [1]),
        ("seed = answer.headers.get('Date')\n", "headers Date", [1]),
        ("kind = answer.headers['Content-Type']\nday = row['Date']\n", "headers Date", []),
        ("loop.slow_callback_duration = 0.1\n", "slow_callback_duration =", [1]),
        ("key = crc32(repr(self.client_address).encode())\n", ".client_address", [1]),
        ("log(self.client_address[0])\n", ".client_address", []),
        ("client.bind('')\n", "bind to no name", [1]),
        ("server.bind(('', 0))\n", "bind to no name", []),
        ("pool.shutdown(wait=True, cancel_futures=True)\n", "cancel_futures=True", [1]),
        ("pool.shutdown(cancel_futures=False)\n", "cancel_futures=True", []),
        (
            "from joblib import Parallel\nParallel(n_jobs=3, prefer='threads')(tasks)\n",
            "joblib.Parallel(prefer=threads)",
            [2],
        ),
        (
            "from joblib import Parallel\nParallel(n_jobs=1, prefer='threads')(t)\n",
            "joblib.Parallel(prefer=threads)",
            [],
        ),
        ("from joblib import Parallel\nParallel(n_jobs=3)(tasks)\n", "joblib.Parallel(prefer=threads)", []),
        ("import os\npid, status = os.wait()\n", "os.wait", [2]),
        ("import os\nfor _ in range(3):\n    os.wait()\n", "os.wait", []),
        ("import os\npid, status = os.waitpid(-1, 0)\n", "os.waitpid(-1)", [2]),
        ("import os\n_, status = os.waitpid(child, 0)\n", "os.waitpid(-1)", []),
        ("import os\nos.waitpid(-1, 0)\n", "os.waitpid(-1)", []),
        ("for child in running:\n    if child.poll() is not None:\n        take(child)\n", "poll() of a program", [2]),
        ("left = [each for each in left if each.poll() is None]\n", "poll() of a program", [1]),
        ("if server.poll() is not None:\n    raise RuntimeError\n", "poll() of a program", []),
        ("while child.poll() is None:\n    sleep(1)\n", "poll() of a program", []),
        (POLL, "poll() of a program", []),
        ("import os\nrun(['kill', str(os.getpid())])\n", "os.getpid for others", [2]),
        ("import os\nProcess(target=f, args=(os.getpid(),))\n", "os.getpid for others", [2]),
        ("import os\nrandom.seed(os.getpid())\n", "os.getpid for others", []),
        ("import os\nrandom.seed(os.getpid())\n", "os.getpid", [2]),
        ('db.execute("""SELECT 1,\nCURRENT_DATE AS a,\nCURRENT_TIMESTAMP AS b FROM t""")\n', "SQL now", [2, 3]),
        (
            "import networkx as nx\nfor c in nx.connected_components(g):\n    first = next(iter(c))\n",
            "set.__iter__",
            [3],
        ),
        (
            "import networkx as nx\nfor c in sorted(nx.connected_components(g), key=len):\n    print(list(c))\n",
            "set.__iter__",
            [3],
        ),
        ("import networkx as nx\nfor c in nx.find_cliques(g):\n    first = next(iter(c))\n", "set.__iter__", []),
    ],
)
def test_what_comes_of_others_is_known(source: str, name: str, lines: list[int]) -> None:
    """By the line that takes it."""
    assert [call.line for call in calls(source) if call.name == name] == lines
