"""Where a run keeps its weights: in its folder, in another one, or at an address that fsspec knows.

A run that keeps them elsewhere says so in `weights/location.json`, and the place has a file `gapbench-run.json` by
which it is seen to be of this run and of no other.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from gapbench.runs.weight_files import WeightFile, WeightPlace, place_at, put, there, told, weight_file
from gapbench_base.errors import GapbenchError
from gapbench_base.files import write_atomically

LOCATION = "weights/location.json"
"""A file of a run with the address of its weights and what the place's `OWNER` says; absent where they are here."""
OWNER = "gapbench-run.json"


def weights_of(run: Path, cell: str) -> WeightFile:
    """The file with a cell's weights of a run."""
    return weight_file(weights_place(run), cell)


def weights_place(run: Path) -> WeightPlace:
    """Where the weight files of a run lie."""
    location = location_of(run)
    return run / "weights" if location is None else place_at(location)


def location_of(run: Path) -> str | None:
    """The address at which a run keeps its weights, None for its own folder."""
    found = _location(run)
    return None if found is None else found[0]


def settle(run: Path, asked: str | os.PathLike[str] | None, begun: bool) -> str | None:
    """Where the weights of a run are kept from now on, and that it can be used.

    Args:
        run: its folder, which exists and which no other process works on.
        asked: an address, or a folder of this machine; None for what the run has.
        begun: whether the run has networks already.

    Returns:
        The address, None for the run's own folder.

    Raises:
        GapbenchError: if it cannot be used, holds the weights of another run, or the run keeps its own elsewhere.
    """
    address = None if asked is None else _normal(os.fspath(asked))
    known = _location(run)
    if known is not None:
        if address is not None and address != known[0]:
            raise GapbenchError(
                f"{run} keeps its weights at {known[0]}, not at {address}: leave --weights out, or choose another "
                "folder with --out. Nothing was changed."
            )
        _require_owner(run, *known)
        return known[0]
    if address is None:
        return None
    if begun:
        raise GapbenchError(
            f"{run} has its weights in its own folder already: leave --weights out, or choose another folder with "
            "--out. Nothing was changed."
        )
    owner = secrets.token_hex(8)
    _claim(address, owner)
    write_atomically(run / LOCATION, json.dumps({"address": address, "owner": owner}) + "\n")
    return address


def _location(run: Path) -> tuple[str, str] | None:
    """Address and owner, as the run has them."""
    try:
        text = (run / LOCATION).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(text)
        return str(found["address"]), str(found["owner"])
    except (ValueError, TypeError, KeyError):
        raise GapbenchError(f"{run / LOCATION} is damaged: it does not say where the weights are.") from None


def _normal(address: str) -> str:
    if "://" not in address:
        return str(Path(address).absolute())
    scheme, stripped = address.partition("://")[0], address.rstrip("/")
    place = place_at(stripped if "://" in stripped else address)
    if scheme in ("http", "https", "hf"):
        raise GapbenchError(
            f"--weights {address}: files cannot be written there; give a folder, s3://, gs:// ..."
        )
    return str(place)


def _claim(address: str, owner: str) -> None:
    """Make a place that of a run, and see that what is written there can be read."""
    place = place_at(address)
    try:
        found = there(place, OWNER)
        if found is not None:
            raise GapbenchError(
                f"{address} holds the weights of another run: give a place of its own, such as {address}/2."
            )
        put(place, OWNER, json.dumps({"owner": owner}) + "\n")
        if _owner(place) != owner:
            raise GapbenchError(f"{address}: what is written there cannot be read again.")
    except OSError as error:
        raise GapbenchError(f"Weights cannot be kept at {address}: {told(error)}.") from None


def _require_owner(run: Path, address: str, owner: str) -> None:
    try:
        found = _owner(place_at(address))
    except OSError as error:
        raise GapbenchError(
            f"The weights of {run} are at {address}, which cannot be read: {told(error)}."
        ) from None
    if found != owner:
        what = "it has no" if found is None else "another run is named in its"
        raise GapbenchError(
            f"The weights of {run} should be at {address}, but {what} {OWNER}: is it the place that it was, and "
            f"mounted? If its files are lost, remove {run / LOCATION}; the next `gapbench run {run}` trains them "
            "again, into the run's folder."
        )


def _owner(place: WeightPlace) -> str | None:
    text = there(place, OWNER)
    try:
        return None if text is None else str(json.loads(text)["owner"])
    except (ValueError, TypeError, KeyError):
        return ""
