"""Where wandb's server is, and whether it can be used from here, without importing wandb."""

from __future__ import annotations

import configparser
import netrc
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

HOST = "https://api.wandb.ai"
CONNECT_SECONDS = 5.0
OFFLINE = ("offline", "disabled", "dryrun")
KEYS = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")


def unreachable() -> str | None:
    """Why wandb cannot be used online, in words.

    Mode, server and key are those that wandb itself would take: from the environment, else from its settings
    files (`wandb offline`, `wandb login --host`), the key also from netrc. Where a proxy leads to the
    server, the proxy must answer.

    Returns:
        The reason, or None where there is a key and the server answers.
    """
    settings = settings_files()
    mode = os.environ.get("WANDB_MODE") or settings.get("mode", "")
    if mode.lower() in OFFLINE:
        named = "WANDB_MODE" if os.environ.get("WANDB_MODE") else "wandb's setting `mode`"
        return f"{named} is {mode}"
    address = os.environ.get("WANDB_BASE_URL") or settings.get("base_url") or HOST
    try:
        host, port = _host_and_port(address)
    except ValueError:
        return f"the server's address {address!r} (WANDB_BASE_URL or wandb's setting `base_url`) is no URL"
    if not (any(map(os.environ.get, KEYS)) or settings.get("api_key") or _in_netrc(urlsplit(address).netloc)):
        return f"there is no key for {host} (set WANDB_API_KEY or run: wandb login)"
    proxy = _proxy(urlsplit(address).scheme, f"{host}:{port}", settings)
    name = f"{host} through the proxy {_shown(proxy)}" if proxy else host
    try:
        socket.create_connection(_host_and_port(proxy) if proxy else (host, port), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        return f"{name} cannot be reached ({error})"
    return None


def settings_files() -> dict[str, str]:
    """wandb's settings: those of the user, and over them those of the working directory."""
    folder = Path(os.environ.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    place = Path(os.environ.get("WANDB_DIR") or ".")
    own = place / (".wandb" if (place / ".wandb").is_dir() else "wandb")
    found: dict[str, str] = {}
    for path in (folder / "settings", own / "settings"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # as wandb does: an unreadable file counts as empty
        if parser.has_section("default"):
            found |= dict(parser["default"])
    return found


def _host_and_port(address: str) -> tuple[str, int]:
    """Where a server listens.

    Returns:
        Host and port.

    Raises:
        ValueError: where it has no host, or a port that is no number.
    """
    parts = urlsplit(address)
    if not parts.hostname:
        raise ValueError(f"{address!r} has no host")
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _proxy(scheme: str, target: str, settings: dict[str, str]) -> str | None:
    """The address of the proxy that leads to a server, with its scheme."""
    proxies = getproxies()
    if proxy_bypass(target):
        return None
    proxy = proxies.get(scheme) or settings.get(f"{scheme}_proxy")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _shown(proxy: str) -> str:
    """Without a user's name and password."""
    parts = urlsplit(proxy)
    return parts.netloc.rpartition("@")[2]


def _in_netrc(netloc: str) -> bool:
    """The second name is used only where there is no file of the first; an unreadable file counts as none."""
    named = os.environ.get("NETRC")
    places = [Path(name).expanduser() for name in ([named] if named else ["~/.netrc", "~/_netrc"])]
    path = next((place for place in places if place.exists()), places[0])
    try:
        found = netrc.netrc(str(path)).authenticators(netloc)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return False
    return found is not None and bool(found[2])
