"""The user's network settings: read from where pip, uv and the system keep them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.net.config import NetworkConfig, network_config, origin, redacted
from envbuild.net.http import goes_direct


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user whose home and working folder are empty, in no virtual environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(home: Path, **environ: str) -> NetworkConfig:
    return network_config({"VIRTUAL_ENV": str(home / "none"), "XDG_CONFIG_DIRS": str(home / "none"), **environ})


def test_certificates_come_from_every_usual_variable_and_from_pip_conf(home: Path) -> None:
    """All bundles that exist are trusted in addition to the system's; ones that do not exist are passed over."""
    for name in ("a", "b", "c", "d"):
        (home / name).touch()
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(f"[global]\ncert = {home}/a\ntimeout = 7\n")
    found = read(home, SSL_CERT_FILE=f"{home}/b", REQUESTS_CA_BUNDLE=f"{home}/c", CURL_CA_BUNDLE=f"{home}/gone")
    assert found.certificates == (home / "a", home / "b", home / "c")
    assert found.read_timeout == 7.0
    assert read(home, PIP_CERT=f"{home}/d").certificates[0] == home / "d"


def test_pip_config_file_dev_null_switches_pip_files_off(home: Path) -> None:
    """PIP_CONFIG_FILE=/dev/null means no pip configuration, as pip documents it."""
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://u:p@index.example.invalid/simple\n")
    assert read(home).credentials == {("https", "index.example.invalid", 443): ("u", "p")}
    assert read(home, PIP_CONFIG_FILE=os.devnull).credentials == {}


def test_credentials_come_from_all_index_urls(home: Path) -> None:
    """Index and find-links addresses of pip and uv, in variables and files, give user and password by origin."""
    (home / ".config/uv").mkdir(parents=True)
    (home / ".config/uv/uv.toml").write_text(
        '[[index]]\nname = "in house"\nurl = "https://uv.example.invalid:8443/simple"\n'
        '[pip]\nextra-index-url = ["https://tok%3Aen@pip.example.invalid/simple"]\n'
    )
    found = read(
        home,
        PIP_EXTRA_INDEX_URL="https://a:b%40c@one.example.invalid/simple http://x@two.example.invalid/",
        UV_INDEX="named=https://three.example.invalid/simple",
        UV_INDEX_NAMED_USERNAME="me",
        UV_INDEX_NAMED_PASSWORD="pass",
        UV_FIND_LINKS="https://f:l@four.example.invalid/a,/opt/folder",
    )
    assert found.credentials == {
        ("https", "one.example.invalid", 443): ("a", "b@c"),
        ("http", "two.example.invalid", 80): ("x", ""),
        ("https", "three.example.invalid", 443): ("me", "pass"),
        ("https", "four.example.invalid", 443): ("f", "l"),
        ("https", "pip.example.invalid", 443): ("tok:en", ""),
    }
    assert "b@c" not in repr(found)


def test_named_uv_indexes_take_their_variables(home: Path) -> None:
    """UV_INDEX_<NAME>_* belong to the user's index of that name: a project that has one of this name gets nothing."""
    text = '[[index]]\nname = "in-house"\nurl = "https://uv.example.invalid:8443/simple"\n'
    variables = {"UV_INDEX_IN_HOUSE_USERNAME": "u", "UV_INDEX_IN_HOUSE_PASSWORD": "p"}
    (home / "uv.toml").write_text(text)
    assert read(home, **variables).credentials == {}
    found = read(home, UV_CONFIG_FILE="uv.toml", **variables)
    assert found.credentials == {("https", "uv.example.invalid", 8443): ("u", "p")}


@pytest.mark.parametrize("text", ["index = 3", "index = [3]", "extra-index-url = 3", "pip = 3"])
def test_settings_of_other_types_are_passed_over(home: Path, text: str) -> None:
    """uv complains about them."""
    (home / "uv.toml").write_text(f"{text}\n")
    assert read(home, UV_CONFIG_FILE="uv.toml").credentials == {}


def test_broken_files_are_passed_over(home: Path) -> None:
    """A file that pip or uv would complain about does not stop a download."""
    (home / ".config/uv").mkdir(parents=True)
    (home / ".config/uv/uv.toml").write_text("= nonsense")
    (home / ".pip").mkdir()
    (home / ".pip/pip.conf").write_text("no section = 1\n")
    assert read(home).credentials == {}


def test_proxies_follow_the_usual_variables(home: Path) -> None:
    """Lower case wins, a bare host gets a scheme, pip's proxy serves as a fallback, CGI's HTTP_PROXY does not."""
    found = read(home, http_proxy="proxy.example.invalid:3128", HTTP_PROXY="http://other", HTTPS_PROXY="http://tls")
    assert found.proxies == {"http": "http://proxy.example.invalid:3128", "https": "http://tls"}
    assert read(home, PIP_PROXY="http://pip").proxies == {"all": "http://pip"}
    assert read(home, HTTP_PROXY="http://cgi", REQUEST_METHOD="GET").proxies == {}


@pytest.mark.parametrize(
    ("host", "port", "no_proxy", "direct"),
    [
        ("localhost", 80, "", True),
        ("127.0.0.1", 80, "", True),
        ("a.example.invalid", 80, "", False),
        ("a.example.invalid", 80, "example.invalid", True),
        ("a.example.invalid", 80, ".example.invalid", True),
        ("a.example.invalid", 80, "x.invalid, *.example.invalid", True),
        ("aexample.invalid", 80, "example.invalid", False),
        ("a.example.invalid", 8080, "a.example.invalid:8080", True),
        ("a.example.invalid", 80, "a.example.invalid:8080", False),
        ("anything.invalid", 80, "*", True),
        ("10.1.2.3", 80, "10.0.0.0/8", True),
        ("11.1.2.3", 80, "10.0.0.0/8", False),
        ("a.example.invalid", 80, ",,", False),
    ],
)
def test_no_proxy(host: str, port: int, no_proxy: str, direct: bool) -> None:
    """no_proxy exempts names, suffixes, ports and networks, and nothing that merely ends alike."""
    assert goes_direct(host, port, no_proxy) is direct


def test_addresses_are_shown_without_passwords() -> None:
    """User and password never reach a message."""
    assert redacted("https://me:secret@h.example.invalid/x") == "https://***@h.example.invalid/x"
    assert redacted("https://h.example.invalid/a@b") == "https://h.example.invalid/a@b"
    assert origin("https://me:s@H.example.invalid/x") == ("https", "h.example.invalid", 443)


@pytest.mark.parametrize(
    "url", [r"https://a.invalid\@b.invalid/x", r"//a.invalid\@b.invalid/", r"https://u:p\@b.invalid"]
)
def test_a_server_whose_name_parsers_read_differently_has_no_origin(url: str) -> None:
    """What ``urlsplit`` takes for b.invalid may be a.invalid for what connects: no credentials are looked up for it."""
    with pytest.raises(ValueError, match="backslash"):
        origin(url)
    assert origin(r"https://b.invalid/a\b") == ("https", "b.invalid", 443)
