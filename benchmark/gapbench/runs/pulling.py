"""A run from a pack that lies somewhere: a file, a folder, an address."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.fetching import FsspecSource, HttpSource, Say, download
from gapbench.runs.lock import sole_driver
from gapbench.runs.packing import Contents, digest, pack
from gapbench.runs.unpacking import DamagedPack, contents_of, unpack
from gapbench.runs.weight_files import place_at
from gapbench_base.errors import GapbenchError
from gapbench_base.keys import text_key

HUB = re.compile(
    r"hf://(?:(?P<kind>datasets|models)/)?(?P<repository>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[^/]+))?"
    r"(?:/(?P<file>.+))?/?"
)


@dataclass(frozen=True)
class PulledRun:
    """What came of pulling: the run's folder, the list of its pack, and whether the same run was `there` before."""

    folder: Path
    contents: Contents
    there: bool


def pull_pack(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    sha256: str | None = None,
    say: Say = lambda text: None,
) -> PulledRun:
    """Make a run of a pack (`gapbench.runs.packing`): it appears when all of it is here and checked.

    Args:
        source: a file; a folder, of a run or with one pack; an http(s) address; any address that fsspec knows, such
            as `file://` or `s3://`; `hf://org/name`, a repository of Hugging Face with one pack, or
            `hf://org/name/FILE`.
        out: the folder of the run (default: `runs/<suite>`), which must not exist, or hold the same run.
        sha256: of the pack, if it is known.
        say: hears how far a download is.

    Returns:
        The run's folder, and whether it was there.

    Raises:
        GapbenchError: for what cannot be fetched, and for another run at `out`; a download that broke off is kept
            for the same call.
        DamagedPack: for what is damaged or no pack, naming the member.
    """
    name = os.fspath(source)
    parent = Path(out).absolute().parent if out is not None else Path("runs").absolute()
    place = parent / f".fetching-{text_key(name)}"
    with _fetched(name, place, say) as path:
        if sha256 is not None and digest(path) != sha256.lower():
            shutil.rmtree(place, ignore_errors=True)
            raise GapbenchError(f"{name} has not the sha256 {sha256}: it is another pack, or damaged.")
        try:
            contents = contents_of(path, name)
            folder = Path(out) if out is not None else Path("runs") / _safe(contents.suite, name)
            contents, there = unpack(path, folder, name)
        except DamagedPack:
            shutil.rmtree(place, ignore_errors=True)  # the next attempt begins anew
            raise
    shutil.rmtree(place, ignore_errors=True)
    return PulledRun(folder, contents, there)


def _safe(suite: str, source: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", suite):
        raise GapbenchError(f"{source} is of a suite called {suite!r}: give a folder with --out.")
    return suite


@contextlib.contextmanager
def _fetched(source: str, place: Path, say: Say) -> Iterator[Path]:
    """The pack as a file of this machine."""
    local = _local(source)
    if local is not None and local.is_file():
        yield local
        return
    if local is not None and not local.is_dir():
        raise GapbenchError(f"There is no {source}.")
    packs = sorted(local.glob("*.zip")) if local is not None else []
    if local is not None and not (local / "run.sqlite").is_file():
        if len(packs) != 1:
            raise GapbenchError(
                f"{source} is no run and a folder of {len(packs)} packs (*.zip): name one file."
            )
        yield packs[0]
        return
    place.mkdir(parents=True, exist_ok=True)
    with sole_driver(place):
        if local is not None:
            (place / "pack.zip").unlink(missing_ok=True)
            yield pack(local, place / "pack.zip").path
        elif source.startswith("hf://"):
            yield _from_hub(source, place)
        else:
            own = HttpSource(source) if source.startswith(("http://", "https://")) else FsspecSource(source)
            yield download(own, source, place, say)


def _local(source: str) -> Path | None:
    """The file or folder of this machine that is meant; None for an address elsewhere."""
    place = place_at(source)
    return place if isinstance(place, Path) else None


def _from_hub(source: str, place: Path) -> Path:
    """A pack of a repository of Hugging Face; an account is asked for only where the repository asks for one."""
    import huggingface_hub

    match = HUB.fullmatch(source)
    if match is None:
        raise GapbenchError(
            f"{source}: give hf://ORG/NAME or hf://ORG/NAME/FILE, perhaps hf://datasets/ORG/NAME."
        )
    endpoint = os.environ.get("HF_ENDPOINT")
    repository, revision, file = match["repository"], match["revision"], match["file"]
    kinds = [match["kind"][:-1]] if match["kind"] else ["dataset", "model"]
    why = ""
    for kind in kinds:
        try:
            if file is None:
                api = huggingface_hub.HfApi(endpoint=endpoint)
                listed = api.list_repo_files(repository, repo_type=kind, revision=revision)
                packs = [name for name in listed if name.endswith(".zip")]
                if len(packs) != 1:
                    raise GapbenchError(f"{source} has {len(packs)} packs (*.zip): name one, {source}/FILE.")
                file = packs[0]
            return Path(
                huggingface_hub.hf_hub_download(
                    repository, file, repo_type=kind, revision=revision, local_dir=place, endpoint=endpoint
                )
            )
        except GapbenchError:
            raise
        except Exception as error:  # of the library and of what it is built on
            why = why or str(error).strip().partition("\n")[0] or type(error).__name__
    raise GapbenchError(f"{source} could not be fetched: {why}")
