"""Fetching over loopback HTTP, with every fault a network and a disk can have."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from urllib3.util import connection

from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Silent
from envbuild.errors import IntegrityError
from envbuild.net.config import NetworkConfig, network_config
from envbuild.store import leases
from envbuild.store.fetch import FetchResult, Item, fetch
from envbuild.store.objects import Store, StoreFullError, StoreRefusedError
from tests.support.clock import YEAR, moved_clock
from tests.support.mounts import unmount
from tests.support.server import FileServer, make_certificate

DATA = random.Random(1).randbytes(1_000_000)
SHA = sha256_bytes(DATA)
QUICK = NetworkConfig(backoff=0.01)
"""Nobody waits between two tries; its limits are the usual ones, which a busy machine does not reach."""

SCRIPT = """
import signal, sys
from pathlib import Path
from envbuild.store.fetch import Item, fetch
from envbuild.net.config import NetworkConfig
from envbuild.core.progress import Silent
from envbuild.store.objects import Store
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts in the background ignore it
root, sha256, size, *sources = sys.argv[1:]
item = Item(name="big", size=int(size), sha256=sha256, sources=tuple(sources))
print("start", flush=True)
result = fetch([item], Store(Path(root)), Silent(), NetworkConfig(read_timeout=1200))
print(result.fetched, result.reused)
"""


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def item(*sources: str, data: bytes = DATA, name: str = "big.whl") -> Item:
    return Item(name=name, size=len(data), sha256=sha256_bytes(data), sources=sources)


def bring(store: Store, *items: Item, network: NetworkConfig = QUICK, verify: bool = False) -> FetchResult:
    return fetch(items, store, Silent(), network, verify=verify)


def leftovers(store: Store) -> list[str]:
    """What is in the store in addition to objects."""
    return sorted(path.name for path in (store.root / "part").glob("*"))


def child(store: Store, source: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(store.root), SHA, str(len(DATA)), source]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for_part(store: Store, size: int, sha256: str = SHA) -> None:
    deadline = time.monotonic() + 300
    while store.part_size(sha256) < size:
        assert time.monotonic() < deadline, "the download did not start"
        time.sleep(0.02)


def test_many_files_arrive_verified_read_only_and_are_reused(server: FileServer, store: Store) -> None:
    """Every file is stored under its digest, once, and a second fetch asks nobody."""
    contents = [random.Random(seed).randbytes(seed * 1000) for seed in range(30)]
    items = [item(server.add(f"f{i}", data), data=data, name=f"f{i}") for i, data in enumerate(contents)]
    result = bring(store, *items, *items)
    assert (result.fetched, result.reused, result.bytes) == (30, 0, sum(map(len, contents)))
    assert [store.path(entry.sha256).read_bytes() for entry in items] == contents
    assert {store.path(entry.sha256).stat().st_mode & 0o777 for entry in items} == {0o444}
    assert leftovers(store) == []
    asked = len(server.requests)
    again = bring(store, *items)
    assert (again.fetched, again.reused, len(server.requests)) == (0, 30, asked)


def test_a_broken_download_goes_on_where_it_stopped(server: FileServer, store: Store) -> None:
    """After a broken connection only what is missing is asked for."""
    url = server.add("big.whl", DATA, drop_after=400_000, drops=2)
    assert bring(store, item(url)).fetched == 1
    ranges = [request.headers.get("Range") for request in server.requests]
    assert server.statuses() == [200, 206, 206]
    assert ranges[0] is None
    assert all(int(str(value).removeprefix("bytes=").removesuffix("-")) > 0 for value in ranges[1:])


def test_a_server_without_ranges_is_asked_for_everything_again(server: FileServer, store: Store) -> None:
    """A 200 in answer to a Range request restarts the file instead of appending to it."""
    url = server.add("big.whl", DATA, drop_after=400_000, drops=1, ranges=False)
    assert bring(store, item(url)).fetched == 1
    assert server.statuses() == [200, 200]
    assert store.verify(SHA)


def test_a_server_that_always_breaks_is_given_up(server: FileServer, store: Store) -> None:
    """Tries without getting further are bounded, and the message states what happened."""
    url = server.add("big.whl", DATA, drop_after=1000, ranges=False)
    with pytest.raises(IntegrityError) as caught:
        bring(store, item(url))
    assert caught.value.message == (
        f"1 of 1 files could not be fetched\n  big.whl (1.0 MB)\n    {url}: the connection broke off"
    )
    assert caught.value.hint == "what came in is kept: try again later, or lock again: envbuild lock"
    assert len(server.requests) == 5


def test_a_part_of_wrong_bytes_is_not_blamed_on_the_server(server: FileServer, store: Store) -> None:
    """Garbage left by an interrupted download is replaced, not reported."""
    url = server.add("big.whl", DATA)
    with store.claim(SHA) as part:
        part.write(b"garbage" * 1000)
    result = bring(store, item(url))
    assert (result.fetched, result.warnings) == (1, ())
    assert server.statuses() == [206, 200]


@pytest.mark.parametrize("size", [len(DATA), len(DATA) + 5])
def test_a_part_that_is_too_long_or_wrong_is_dropped(server: FileServer, store: Store, size: int) -> None:
    """A part of full size or more never stops a download."""
    with store.claim(SHA) as part:
        part.write(bytes(size))
    assert bring(store, item(server.add("big.whl", DATA))).fetched == 1


def test_a_whole_part_needs_no_request(server: FileServer, store: Store) -> None:
    """A command killed just before the rename leaves a part that is published as it is."""
    with store.claim(SHA) as part:
        part.write(DATA)
    assert bring(store, item(server.add("big.whl", DATA))).fetched == 1
    assert server.requests == []


def test_wrong_bytes_never_enter_and_the_next_source_is_tried(server: FileServer, store: Store) -> None:
    """A source with wrong bytes is named in a warning; the file comes from the next one."""
    evil = b"!" + DATA[1:]
    liar, honest = server.add("evil/big.whl", evil), server.add("big.whl", DATA)
    result = bring(store, item(liar, honest))
    assert result.warnings == (
        f"big.whl: wrong bytes: expected sha256 {SHA} (1000000 bytes), "
        f"found sha256 {sha256_bytes(evil)} (1000000 bytes) ({liar})",
    )
    assert store.verify(SHA)


def test_wrong_bytes_everywhere_is_an_error_naming_each_source(server: FileServer, store: Store) -> None:
    """If no source is right, the error lists what each of them gave, and nothing is stored."""
    evil = b"!" + DATA[1:]
    first, second, third = server.add("a", evil), server.add("b", DATA[:-1]), server.add("c", DATA + b"x", length=False)
    with pytest.raises(IntegrityError) as caught:
        bring(store, item(first, second, third, f"{server.url}/absent"))
    expected = f"wrong bytes: expected sha256 {SHA} (1000000 bytes)"
    assert caught.value.message == (
        "1 of 1 files could not be fetched\n  big.whl (1.0 MB)\n"
        f"    {first}: {expected}, found sha256 {sha256_bytes(evil)} (1000000 bytes)\n"
        f"    {second}: wrong size: expected 1000000 bytes, found 999999\n"
        f"    {third}: {expected}, found sha256 {sha256_bytes(DATA + b'x')} (1000001 bytes)\n"
        f"    {server.url}/absent: 404 Not Found"
    )
    assert not store.has(SHA)
    assert leftovers(store) == []


def test_all_failures_are_reported_together_and_the_rest_is_kept(server: FileServer, store: Store) -> None:
    """One missing file does not hide another, nor lose the files that came in."""
    good = item(server.add("good", b"good"), data=b"good", name="good")
    bad = [item(f"{server.url}/{name}", data=name.encode(), name=name) for name in ("y.whl", "x.whl")]
    with pytest.raises(IntegrityError) as caught:
        bring(store, good, *bad, item(data=b"nowhere", name="nowhere.deb"))
    assert caught.value.message == (
        "3 of 4 files could not be fetched\n"
        "  nowhere.deb (7 B)\n    no source is known: no index, mirror or folder in use offers it\n"
        f"  x.whl (5 B)\n    {server.url}/x.whl: 404 Not Found\n"
        f"  y.whl (5 B)\n    {server.url}/y.whl: 404 Not Found"
    )
    assert store.has(good.sha256, 4)


@pytest.mark.parametrize("status", [500, 503, 429, 0])
def test_passing_failures_are_tried_again(server: FileServer, store: Store, status: int) -> None:
    """Server errors and dropped connections are tried again before the next source is used."""
    url = server.add("big.whl", DATA, failures=2, status=status, headers={"Retry-After": "0"})
    assert bring(store, item(url)).fetched == 1
    assert server.statuses() == [status, status, 200]


def test_the_next_source_is_asked_after_404(server: FileServer, store: Store) -> None:
    """A file that a source lacks is not asked for twice there."""
    url = server.add("big.whl", DATA)
    assert bring(store, item(f"{server.url}/gone/big.whl", url)).fetched == 1
    assert server.statuses() == [404, 200]


def test_a_silent_server_is_left_for_the_next_source(server: FileServer, store: Store) -> None:
    """A server that does not answer in time is left."""
    slow, quick = server.add("slow", DATA, delay=60.0), server.add("quick", DATA)
    network = NetworkConfig(backoff=0.01, read_timeout=1.5, attempts=2)
    assert bring(store, item(slow, quick), network=network).fetched == 1


def test_a_dead_server_costs_its_wait_only_once(
    server: FileServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no connection can be made, the files after the first few do not try and wait all over again."""
    tries, connect = [], connection.create_connection

    def counting(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
        tries.append(address[1])
        return connect(address, *arguments, **options)

    monkeypatch.setattr(connection, "create_connection", counting)
    items = []
    for number in range(100):
        data = str(number).encode()
        items.append(item("http://127.0.0.1:1/x", server.add(f"f{number}", data), data=data, name=f"f{number}"))
    assert bring(store, *items, network=NetworkConfig(backoff=0.2, attempts=3)).fetched == 100
    assert 3 <= tries.count(1) <= 8 * 3  # of as many files as come in at the same time


def test_a_slow_server_is_waited_for(server: FileServer, store: Store) -> None:
    """Slowness alone is no failure: the limit is on silence, not on the whole download."""
    url = server.add("big.whl", DATA[:40_000], rate=16_000)
    network = NetworkConfig(read_timeout=1.5)
    assert bring(store, item(url, data=DATA[:40_000]), network=network).fetched == 1


def test_an_answer_without_length_that_ends_early_is_resumed(server: FileServer, store: Store) -> None:
    """A short body is noticed even if the server never stated how long it would be."""
    url = server.add("big.whl", DATA, length=False, drop_after=1000, drops=1)
    assert bring(store, item(url)).fetched == 1
    assert server.statuses() == [200, 206]


def test_an_endless_body_is_cut(server: FileServer, store: Store) -> None:
    """No more than the file's size is ever written, whatever a server sends."""
    url = server.add("small.deb", bytes(50_000_000), length=False)
    with pytest.raises(IntegrityError, match=r"wrong bytes: .* \(4 bytes\), found .* \(5 bytes\)$"):
        bring(store, item(url, data=b"abcd", name="small.deb"))


def test_a_redirect_without_end_is_left(server: FileServer, store: Store) -> None:
    """What a redirecting answer holds is of no interest: it is not read to its end, which a server decides."""
    target = server.add("big.whl", DATA)
    over = threading.Event()

    def redirect() -> None:
        peer, _ = listening.accept()
        with peer, contextlib.suppress(OSError):
            peer.recv(1 << 16)
            peer.sendall(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n\r\n".encode())
            while not over.is_set():
                peer.sendall(bytes(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=redirect)
        thread.start()
        try:
            assert bring(store, item(f"http://127.0.0.1:{listening.getsockname()[1]}/a.whl")).fetched == 1
        finally:
            over.set()
            thread.join()


def test_a_nonsense_range_is_not_appended(server: FileServer, store: Store) -> None:
    """A 206 for another range than asked for restarts the file."""
    url = server.add("big.whl", DATA, drop_after=5000, drops=1, headers={"Content-Range": "bytes 7-9/10"})
    assert bring(store, item(url)).fetched == 1
    assert server.statuses() == [200, 206, 200]


def test_credentials_go_to_their_origin_only(server: FileServer, store: Store) -> None:
    """User name and password of an index reach that index, and are not carried along by a redirect."""
    with FileServer() as other:
        target = other.add("big.whl", DATA)
        server.add("big.whl", b"", auth="me:p@ss", redirect=target)
        environ = {"PIP_INDEX_URL": server.url.replace("//", "//me:p%40ss@") + "/simple", "PIP_CONFIG_FILE": os.devnull}
        bring(store, item(f"{server.url}/big.whl"), network=network_config(environ))
        assert "Authorization" in server.requests[0].headers
        assert "Authorization" not in other.requests[0].headers


def test_credentials_in_an_address_work_and_stay_out_of_messages(server: FileServer, store: Store) -> None:
    """A password in a source is sent, and never shown."""
    server.add("big.whl", DATA, auth="me:secret")
    address = server.url.replace("//", "//me:{}@") + "/big.whl"
    with pytest.raises(IntegrityError) as caught:
        bring(store, item(address.format("wrong")))
    assert "wrong" not in caught.value.message
    assert f"{server.url.replace('//', '//***@')}/big.whl: 401 Unauthorized: put user name" in caught.value.message
    assert bring(store, item(address.format("secret"))).fetched == 1


def test_netrc_is_used(server: FileServer, store: Store, tmp_path: Path) -> None:
    """Credentials of ~/.netrc (or $NETRC) are used."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    url = server.add("big.whl", DATA, auth="me:secret")
    assert bring(store, item(url), network=network_config({"NETRC": str(tmp_path / "netrc")})).fetched == 1


def test_the_default_of_netrc_is_not_for_redirects(server: FileServer, store: Store, tmp_path: Path) -> None:
    """The entry for all other hosts is meant for those that the user names, not for wherever a server sends us."""
    (tmp_path / "netrc").write_text("default login me password secret\n")
    with FileServer() as other:
        target = other.add("big.whl", DATA).replace("127.0.0.1", "localhost")
        url = server.add("big.whl", b"", redirect=target)
        assert bring(store, item(url), network=network_config({"NETRC": str(tmp_path / "netrc")})).fetched == 1
        assert [request.headers.get("Authorization", "")[:5] for request in server.requests] == ["Basic"]
        assert ["Authorization" in request.headers for request in other.requests] == [False]


def test_proxies_are_used_and_exempt_hosts_are_not(server: FileServer, store: Store) -> None:
    """An http address goes through the proxy unless no_proxy names its host."""
    server.add("big.whl", DATA)
    network = network_config({"http_proxy": server.url, "no_proxy": "exempt.invalid"})
    assert bring(store, item("http://files.example.invalid/big.whl"), network=network).fetched == 1
    assert server.requests[0].target == "http://files.example.invalid/big.whl"
    store.path(SHA).unlink()
    quick = NetworkConfig(proxies=network.proxies, no_proxy="exempt.invalid", attempts=1)
    with pytest.raises(IntegrityError, match="no connection: "):
        bring(store, item("http://exempt.invalid/big.whl"), network=quick)


def test_tls_is_verified_and_a_private_authority_can_be_added(store: Store, tmp_path: Path) -> None:
    """An unknown certificate is refused; PIP_CERT adds its authority."""
    with FileServer(certificate=make_certificate(tmp_path)) as server:
        url = server.add("big.whl", DATA)
        with pytest.raises(IntegrityError, match="the server's certificate is not trusted"):
            bring(store, item(url))
        network = network_config({"PIP_CERT": str(tmp_path / "certificate.pem")})
        assert bring(store, item(url), network=network).fetched == 1


_OPEN = """
import sys
from envbuild.net.config import NetworkConfig
from envbuild.net.http import Http, HttpError
try:
    print(Http(NetworkConfig(certificates=(sys.argv[2],))).open(sys.argv[1]).status)
except HttpError as error:
    print(error.reason, error.transient)
"""


@pytest.mark.parametrize(("years", "words"), [(-10, "is not valid yet"), (10, "has expired")])
def test_a_certificate_refused_for_its_time_names_the_clock(tmp_path: Path, years: int, words: str) -> None:
    """With a wrong clock nothing is wrong with the server: the message has the time here, and no retry is made."""
    certificate = make_certificate(tmp_path)
    with FileServer(certificate=certificate) as server:
        command = [sys.executable, "-c", _OPEN, server.add("big.whl", DATA), certificate]

        def opened(**environ: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=True)

        assert opened().stdout == "200\n"
        done = opened(**moved_clock(tmp_path, years * YEAR))
    then = f"{datetime.now(timezone.utc) + timedelta(seconds=years * YEAR):%Y-%m}"
    assert then in done.stdout
    assert f"(this machine's clock), found one that {words}: see date -u False" in done.stdout
    assert done.stderr == ""


def test_offline_names_what_is_missing(server: FileServer, store: Store) -> None:
    """Offline, no server is asked, files of this machine still serve, and the rest is named."""
    with pytest.raises(IntegrityError) as caught:
        bring(store, item(server.add("big.whl", DATA)), network=NetworkConfig(offline=True))
    assert caught.value.message == ("1 of 1 files are not in the store, and the network is off\n  big.whl (1.0 MB)")
    assert caught.value.hint == "fetch them once with the network on: envbuild fetch"
    assert server.requests == []


def test_a_damaged_object_is_fetched_again(server: FileServer, store: Store) -> None:
    """With ``verify`` an object whose bytes changed on disk is replaced."""
    url = server.add("big.whl", DATA)
    bring(store, item(url))
    store.path(SHA).chmod(0o644)
    store.path(SHA).write_bytes(b"!" + DATA[1:])
    assert bring(store, item(url)).reused == 1
    assert bring(store, item(url), verify=True).fetched == 1
    assert store.verify(SHA)


def test_two_commands_at_once_download_once(server: FileServer, store: Store) -> None:
    """Of two processes that want a file, one fetches it and the other waits for it."""
    url = server.add("big.whl", DATA, rate=1_000_000)
    runs = [child(store, url) for _ in range(2)]
    answers = sorted(run.communicate(timeout=300)[0].split("\n")[1] for run in runs)
    assert answers == ["0 1", "1 0"]
    assert server.statuses() == [200]
    assert store.verify(SHA)


def test_after_kill_9_the_next_command_goes_on(server: FileServer, store: Store) -> None:
    """A killed download leaves a part, no object, no lock; the next one asks for the rest only."""
    url = server.add("big.whl", DATA, hold_after=300_000)
    run = child(store, url)
    wait_for_part(store, 100_000)
    run.kill()
    run.communicate(timeout=300)
    assert not store.has(SHA)
    server.files["/big.whl"].go.set()
    assert bring(store, item(url)).fetched == 1
    assert server.statuses() == [200, 206]
    assert leftovers(store) == []


def test_ctrl_c_ends_a_silent_download_at_once(server: FileServer, store: Store) -> None:
    """SIGINT does not wait for a server that sends nothing: nor for the 20 minutes until the timeout."""
    url = server.add("big.whl", DATA, hold_after=100_000)
    run = child(store, url)
    wait_for_part(store, 1)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=600)
    assert run.returncode != 0
    assert not store.has(SHA)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB; mounting one needs root, which the tests of this project run as."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        leases.end(folder / "store")
        unmount(folder)


def test_a_disk_too_small_is_refused_before_the_first_byte(server: FileServer, small_disk: Path) -> None:
    """What is missing is compared with the free space first."""
    store, big = Store(small_disk / "store"), bytes(3_000_000)
    with pytest.raises(StoreFullError) as caught:
        bring(store, item(server.add("big.whl", big), data=big))
    assert caught.value.message == (
        f"the store {store.root} has too little space: 1 files need 3.0 MB, 2.1 MB are free"
    )
    assert caught.value.hint == "free some space, or choose another folder: export ENVBUILD_STORE=FOLDER"
    assert server.requests == []


def test_a_disk_that_fills_up_is_left_as_it_was(server: FileServer, small_disk: Path) -> None:
    """If another program takes the space meanwhile, the error states how much is missing and nothing is left behind."""
    store = Store(small_disk / "store")
    first, second = DATA, DATA[::-1]
    items = [
        item(server.add("a.whl", first, hold_after=100_000), data=first, name="a.whl"),
        item(server.add("b.whl", second, hold_after=100_000), data=second, name="b.whl"),
    ]

    def fill() -> None:
        try:
            for entry in items:
                wait_for_part(store, 1, entry.sha256)
            with contextlib.suppress(OSError):  # no space left: just what is wanted
                (small_disk / "other").write_bytes(bytes(2 << 20))
        finally:
            for served in server.files.values():
                served.go.set()

    thread = threading.Thread(target=fill)
    thread.start()
    with pytest.raises(StoreFullError, match=r"has no space left: [ab]\.whl needs [0-9]+ bytes more$"):
        bring(store, *items)
    thread.join()
    (small_disk / "other").unlink()
    assert leftovers(store) == []
    assert [path for path in (store.root / "sha256").rglob("*") if path.is_file()] == []


def test_a_store_that_cannot_be_written_is_reported(server: FileServer, small_disk: Path) -> None:
    """A read-only file system is an error with the store's folder and the way out."""
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    store = Store(small_disk / "store")
    with pytest.raises(StoreRefusedError) as caught:
        bring(store, item(server.add("big.whl", DATA)))
    assert caught.value.message == f"the store {store.root} cannot be written: Read-only file system"


def test_memory_stays_small(server: FileServer, store: Store, tmp_path: Path) -> None:
    """A file of 200 MB does not make the process grow."""
    size = 200_000_000
    data = bytes(size)
    url = server.add("huge.whl", data)
    # Not ru_maxrss: a child inherits the peak of the process that started it, here the whole test session's.
    probe = SCRIPT + "print(next(int(x.split()[1]) // 1024 for x in open('/proc/self/status') if x[:6] == 'VmHWM:'))\n"
    command = [sys.executable, "-c", probe, str(store.root), sha256_bytes(data), str(size), url]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert out[1:3] == ["1", "0"]
    assert int(out[3]) < 80, f"peak memory was {out[3]} MB"


def test_odd_names_are_only_names(server: FileServer, store: Store) -> None:
    """A name is for messages: slashes, newlines and control characters in it touch no path."""
    names: Sequence[str] = ("../../x", "a b\n", "-rf", "$(x)", "é" * 300)
    items = [item(server.add(f"odd{i}", name.encode()), data=name.encode(), name=name) for i, name in enumerate(names)]
    assert bring(store, *items).fetched == len(names)
    assert sorted(path.name for path in store.root.iterdir()) == ["CACHEDIR.TAG", "leases", "part", "sha256"]
