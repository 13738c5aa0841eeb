"""What uv is given of the user's indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.resolve.python.indexes import Indexes, addresses, configured

CLEAN = {"PIP_CONFIG_FILE": "/dev/null", "UV_NO_CONFIG": "1", "SSL_CERT_FILE": "/own/certificates.pem"}


def _configured(tmp_path: Path, **environ: str) -> Indexes:
    return configured({**CLEAN, **environ}, tmp_path)


def test_nothing_configured_reports_nothing(tmp_path: Path) -> None:
    """uv's defaults stand where nobody configured anything."""
    assert _configured(tmp_path) == Indexes()


def test_pip_users_get_their_indexes_extra_ones_first(tmp_path: Path) -> None:
    """Indexes of pip are asked in turn, so that a stranger's newer upload cannot replace a private package."""
    found = _configured(
        tmp_path, PIP_INDEX_URL="https://main.invalid/simple", PIP_EXTRA_INDEX_URL="https://a.invalid https://b.invalid"
    )
    assert found.environment == {
        "UV_DEFAULT_INDEX": "https://main.invalid/simple",
        "UV_INDEX": "https://a.invalid https://b.invalid",
        "UV_INDEX_STRATEGY": "unsafe-first-match",
    }


def test_the_users_own_strategy_is_kept(tmp_path: Path) -> None:
    """UV_INDEX_STRATEGY is not overridden."""
    found = _configured(tmp_path, PIP_EXTRA_INDEX_URL="https://a.invalid", UV_INDEX_STRATEGY="unsafe-best-match")
    assert "UV_INDEX_STRATEGY" not in found.environment


@pytest.mark.parametrize(
    "name", ["UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"]
)
def test_options_of_uv_replace_the_configuration(tmp_path: Path, name: str) -> None:
    """pip's indexes are not mixed into those that the user configured for uv."""
    environ = {name: "https://uv.invalid/simple", "PIP_EXTRA_INDEX_URL": "https://pip.invalid/simple"}
    assert _configured(tmp_path, **environ) == Indexes()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("uv.toml", '[[index]]\nurl = "https://uv.invalid/simple"\n'),
        ("uv.toml", '[pip]\nextra-index-url = ["https://uv.invalid/simple"]\n'),
        ("pyproject.toml", '[tool.uv]\nindex-url = "https://uv.invalid/simple"\n'),
    ],
)
def test_a_projects_settings_of_uv_choose_no_index(tmp_path: Path, file: str, text: str) -> None:
    """They are the project's, which may be anybody's; a note says so. The user's own count, wherever they are."""
    path = tmp_path / file
    path.write_text(text)
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    environ = {name: value for name, value in CLEAN.items() if name != "UV_NO_CONFIG"}
    environ |= {"XDG_CONFIG_HOME": str(tmp_path / "none"), "PIP_EXTRA_INDEX_URL": "https://pip.invalid/simple"}
    found = configured(environ, inner)
    assert "UV_INDEX" in found.environment
    (note,) = found.notes
    assert note.startswith(f"{file} of the project: ")
    assert configured({**environ, "UV_CONFIG_FILE": str(path)}, inner).environment == {}
    path.unlink()
    assert configured(environ, inner).notes == ()
    own = tmp_path / "none/uv/uv.toml"
    own.parent.mkdir(parents=True)
    own.write_text('index-url = "https://uv.invalid/simple"\n')
    assert configured(environ, inner).environment == {}


def test_missing_folders_are_left_out_and_reported(tmp_path: Path) -> None:
    """A folder that is configured but not there kills nothing."""
    there = tmp_path / "here, with a comma"
    there.mkdir()
    gone = tmp_path / "gone"
    chosen = tmp_path / "pip.conf"
    chosen.write_text(f"[global]\nfind-links = {gone}\nextra-index-url = file://{gone}/simple https://a.invalid\n")
    found = configured({**CLEAN, "PIP_CONFIG_FILE": str(chosen)}, tmp_path, [there])
    assert found.notes == (
        f"find-links {gone}: does not exist, left out",
        f"extra-index-url file://{gone}/simple: does not exist, left out",
    )
    assert found.environment["UV_INDEX"] == "https://a.invalid"
    assert found.environment["UV_FIND_LINKS"] == there.as_uri().replace(",", "%2C")


def test_the_specs_folders_join_the_users(tmp_path: Path) -> None:
    """Folders of the spec come first and do not hide those that uv is reported."""
    (tmp_path / "wheels").mkdir()
    environ = {**CLEAN, "UV_FIND_LINKS": "/opt/mine"}
    found = configured(environ, tmp_path, [Path("wheels")])
    assert found.environment == {"UV_FIND_LINKS": f"{(tmp_path / 'wheels').as_uri()},/opt/mine"}


def test_no_index_is_kept(tmp_path: Path) -> None:
    """If pip is configured to ask no index, uv asks none."""
    assert _configured(tmp_path, PIP_NO_INDEX="1", PIP_EXTRA_INDEX_URL="https://a.invalid").arguments == ("--no-index",)


def test_no_address_is_on_the_command_line(tmp_path: Path) -> None:
    """Anybody may read a command line, and addresses may hold passwords: they travel in the environment."""
    found = _configured(
        tmp_path, PIP_INDEX_URL="https://me:secret@a.invalid", PIP_FIND_LINKS="https://me:secret@b.invalid/links"
    )
    assert found.arguments == ()
    assert "secret" not in repr(found)
    assert found.environment["UV_FIND_LINKS"] == "https://me:secret@b.invalid/links"


def test_transport_is_translated_unless_uv_knows(tmp_path: Path) -> None:
    """Certificates, proxy, trusted hosts, time-out, constraints and pre-releases of pip hold for uv."""
    environ = {
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_CONFIG": "1",
        "PIP_CERT": "/pip.pem",
        "PIP_PROXY": "proxy.invalid:3128",
    }
    environ |= {"PIP_TRUSTED_HOST": "a.invalid b.invalid:81", "PIP_TIMEOUT": "9", "PIP_PRE": "1"}
    environ |= {"PIP_CLIENT_CERT": "/me.pem", "PIP_CONSTRAINT": "/c.txt"}
    assert configured(environ, tmp_path).environment == {
        "HTTP_PROXY": "http://proxy.invalid:3128",
        "HTTPS_PROXY": "http://proxy.invalid:3128",
        "SSL_CERT_FILE": "/pip.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "UV_CONSTRAINT": "/c.txt",
        "UV_HTTP_TIMEOUT": "9",
        "UV_INSECURE_HOST": "a.invalid b.invalid:81",
        "UV_PRERELEASE": "allow",
    }
    reported = {"SSL_CERT_FILE": "/uv.pem", "UV_HTTP_TIMEOUT": "3", "https_proxy": "http://other.invalid"}
    found = configured({**environ, **reported}, tmp_path).environment
    assert not {"SSL_CERT_FILE", "UV_HTTP_TIMEOUT", "HTTPS_PROXY"} & set(found)


def test_indexes_that_uv_asks(tmp_path: Path) -> None:
    """Those that variables name, in uv's order; none if uv's own configuration files decide."""
    environ = {"UV_INDEX": "mine=https://a.invalid/simple", "UV_EXTRA_INDEX_URL": "https://b.invalid/"}
    environ |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    assert addresses(Indexes(), environ) == ("https://a.invalid/simple", "https://b.invalid/")
    assert addresses(Indexes(), environ, "https://own.invalid")[-1] == "https://own.invalid"
    environ["UV_DEFAULT_INDEX"] = "https://c.invalid/simple"
    found = ("https://a.invalid/simple", "https://b.invalid/", "https://c.invalid/simple")
    assert addresses(Indexes(), environ, "https://own.invalid") == found
    local = Indexes(environment={"UV_INDEX": "file:///x https://a.invalid/simple"})
    assert addresses(local, environ) == ("file:///x", *found)
    assert addresses(Indexes(arguments=("--no-index",)), environ) == ()
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text('extra-index-url = ["https://d.invalid/simple"]\n')
    assert addresses(Indexes(), environ) == ()
