"""Whether wandb can be used from here: mode, server, key and proxy as wandb itself would take them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapbench_leaderboard.board.wandb_server import _in_netrc, settings_files, unreachable

KEY = "0" * 40


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in list(os.environ):
        if name.startswith("WANDB_") or name.lower().endswith("_proxy") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def write_settings(home: Path, text: str) -> None:
    path = home / ".config" / "wandb" / "settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_key_or_server_the_reason_is_named(monkeypatch: pytest.MonkeyPatch, closed: int) -> None:
    assert unreachable() == "there is no key for api.wandb.ai (set WANDB_API_KEY or run: wandb login)"
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed}")
    assert (unreachable() or "").startswith("127.0.0.1 cannot be reached")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:port")
    assert "is no URL" in (unreachable() or "")
    monkeypatch.setenv("WANDB_BASE_URL", "wandb.example")
    assert "is no URL" in (unreachable() or "")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert unreachable() == "WANDB_MODE is offline"


def test_an_own_server_and_its_key_are_found_where_login_writes_them(home: Path, listening: int) -> None:
    write_settings(home, f"[default]\nbase_url = http://127.0.0.1:{listening}\n")
    assert unreachable() == "there is no key for 127.0.0.1 (set WANDB_API_KEY or run: wandb login)"
    (home / ".netrc").write_text(f"machine 127.0.0.1:{listening}\n  login user\n  password {KEY}\n")
    assert unreachable() is None
    (home / ".netrc").write_text(f"machine api.wandb.ai\n  login user\n  password {KEY}\n")
    assert "there is no key" in (unreachable() or "")


def test_wandb_offline_is_respected(
    home: Path, monkeypatch: pytest.MonkeyPatch, listening: int, closed: int
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    write_settings(home, f"[default]\nbase_url = http://127.0.0.1:{listening}\nmode = offline\n")
    assert unreachable() == "wandb's setting `mode` is offline"
    monkeypatch.setenv("WANDB_MODE", "online")
    assert unreachable() is None
    monkeypatch.delenv("WANDB_MODE")
    (home / "wandb").mkdir()
    (home / "wandb" / "settings").write_text("[default]\nmode = online\n")
    assert unreachable() is None  # the working directory's settings stand over the user's
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed}")
    assert "cannot be reached" in (unreachable() or "")  # the environment over both


@pytest.mark.parametrize(
    "text", ["no section\n", "[default]\nmode\n", "[other]\nmode = offline\n", "\x00\xff"]
)
def test_unreadable_settings_count_as_none(home: Path, text: str) -> None:
    write_settings(home, "")
    (home / ".config" / "wandb" / "settings").write_bytes(text.encode("latin-1"))
    assert settings_files() == {}


def test_behind_a_proxy_the_proxy_must_answer(
    monkeypatch: pytest.MonkeyPatch, listening: int, closed: int
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.invalid")
    assert (unreachable() or "").startswith("wandb.invalid cannot be reached")
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@127.0.0.1:{listening}")
    assert unreachable() is None
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@127.0.0.1:{closed}")
    why = unreachable() or ""
    assert why.startswith(f"wandb.invalid through the proxy 127.0.0.1:{closed} cannot be reached")
    assert "secret" not in why
    monkeypatch.setenv("NO_PROXY", "wandb.invalid")
    assert (unreachable() or "").startswith("wandb.invalid cannot be reached")


@pytest.mark.parametrize(
    "text",
    ["[default]\nbase_url = https://a.example\n", "[default]\nbase_url: https://b.example\nmode=online\n"],
)
def test_files_are_read_as_wandb_reads_them(home: Path, text: str) -> None:
    settings_file = pytest.importorskip("wandb.sdk.lib.settings_file")
    write_settings(home, text)
    files = settings_file.SettingsFiles(
        global_settings=home / ".config" / "wandb" / "settings", local_settings=home / "wandb" / "settings"
    )
    assert settings_files() == dict(files.all())


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (None, f"machine api.wandb.ai\n  login user\n  password {KEY}\n".encode(), True),
        (
            b"machine other\n  login a\n  password b\n",
            f"machine api.wandb.ai password {KEY}\n".encode(),
            False,
        ),
        (b"\xff\xfe\x00 nothing that is text", None, False),
        (b"machine api.wandb.ai login user password", None, False),
        (b'machine api.wandb.ai login user password ""\n', None, False),
        (f"default login user password {KEY}\n".encode(), None, True),
    ],
)
def test_keys_of_netrc_are_found_as_wandb_finds_them(
    home: Path, first: bytes | None, second: bytes | None, found: bool
) -> None:
    for name, content in ((".netrc", first), ("_netrc", second)):
        if content is not None:
            (home / name).write_bytes(content)
    wbauth = pytest.importorskip("wandb.sdk.lib.wbauth")
    try:
        theirs = wbauth.read_netrc_auth(host="https://api.wandb.ai") is not None
    except UnicodeDecodeError:
        theirs = False
    assert _in_netrc("api.wandb.ai") == theirs == found
