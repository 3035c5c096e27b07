"""Packs of runs, and runs of packs: the same bytes, fingerprint and board, whatever lies between; nothing half."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmark.conftest import WALLS
from benchmark.run_cases import rows
from benchmark.runs.test_merging import board, content, environment
from benchmark.sandbox.adversaries import BENIGN
from gapbench.runs import fetching
from gapbench.runs.entries import load_entries
from gapbench.runs.packing import pack
from gapbench.runs.pulling import pull_pack
from gapbench.runs.run import open_run
from gapbench.submission.submitting import submit
from gapbench_base.errors import GapbenchError
from kills import chosen, killed, steps_of

MODULES = tuple(
    f"gapbench.runs.{name}" for name in ("packing", "unpacking", "pulling", "fetching", "staging")
)


STORED = Path(__file__).parent / "stored" / "entries"


@pytest.fixture(scope="module")
def packed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with an entry (of another population), a withdrawn one and an audit; and its pack."""
    folder = tmp_path_factory.mktemp("packed")
    run = shutil.copytree(trained, folder / "run")
    shutil.copytree(STORED, run / "entries")
    aside = run / "entries" / "withdrawn"
    aside.mkdir()
    entry = json.loads(next(STORED.glob("*.json")).read_text())
    (aside / f"{'0' * 16}.json").write_text(json.dumps(entry | {"id": "0" * 16}))
    (run / "invariances.json").write_text(json.dumps({"networks": 2, "seed": 0, "proxies": {}}))
    return run, pack(run, folder / "pack.zip").path


def same_run(pulled: Path, run: Path) -> None:
    """The same rows, files, fingerprint."""
    one, other = open_run(pulled), open_run(run)
    assert one.identity == other.identity
    assert one.population.equals(other.population)
    assert one.measurements.equals(other.measurements)
    assert load_entries(pulled) == load_entries(run)
    for table in ("meta", "cells", "measurements", "attempts"):
        assert rows(pulled, table) == rows(run, table)
    own = ("weights", "entries", "invariances.json")
    for files in (content(pulled), content(run)):
        assert {name for name in files if name.startswith(own)}
    assert {n: h for n, h in content(pulled).items() if n.startswith(own)} == {
        n: h for n, h in content(run).items() if n.startswith(own)
    }


def test_a_pack_has_the_same_bytes_wherever_the_run_lies(packed: tuple[Path, Path], tmp_path: Path) -> None:
    run, file = packed
    done = pull_pack(file, tmp_path / "pulled")
    assert not done.there
    same_run(done.folder, run)
    again = pack(done.folder, tmp_path / "again.zip")
    assert again.path.read_bytes() == file.read_bytes()
    assert again.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert pack(done.folder, tmp_path / "again.zip").there
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        listed = json.loads(archive.read("gapbench.json"))
        assert listed["fingerprint"] == open_run(run).identity.fingerprint
        assert (listed["suite"], listed["networks"], listed["planned"]) == ("tiny", 12, 12)
        for name, member in listed["members"].items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == member["sha256"]
        assert set(archive.namelist()) == {"gapbench.json", *listed["members"]}
        assert len(archive.namelist()) == 1 + 1 + 12 + 2 + 1


def test_the_board_of_a_pulled_run_has_the_same_bytes(packed: tuple[Path, Path], tmp_path: Path) -> None:
    run, file = packed
    pulled = pull_pack(file, tmp_path / "pulled").folder
    assert board(pulled) == board(shutil.copytree(run, tmp_path / "copy"))


def test_what_is_there_is_neither_replaced_nor_made_twice(packed: tuple[Path, Path], tmp_path: Path) -> None:
    run, file = packed
    pulled = pull_pack(file, tmp_path / "pulled").folder
    before = content(pulled)
    assert pull_pack(file, tmp_path / "pulled").there
    assert pull_pack(pulled, tmp_path / "pulled").there
    assert content(pulled) == before
    entry = next((pulled / "entries").glob("*.json"))
    entry.unlink()
    with pytest.raises(
        GapbenchError, match="the same population with other measurements, entries or weights"
    ):
        pull_pack(file, tmp_path / "pulled")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(GapbenchError, match="exists already"):
        pull_pack(file, tmp_path / "other")
    (tmp_path / "mine.zip").write_bytes(b"mine")
    with pytest.raises(GapbenchError, match="exists already, with another content"):
        pack(run, tmp_path / "mine.zip")
    assert (tmp_path / "mine.zip").read_bytes() == b"mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.zip", "other", "pulled"]


def test_a_damaged_weight_file_is_not_packed(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    damaged = sorted((run / "weights").iterdir())[5]
    whole = damaged.read_bytes()
    for wrong in (whole[:-1] + b"x", whole[:-1], b""):
        damaged.write_bytes(wrong)
        with pytest.raises(GapbenchError, match=f"{damaged.name} is .*Restore it with: gapbench run"):
            pack(run, tmp_path / "pack.zip")
    damaged.unlink()
    with pytest.raises(GapbenchError, match=f"{damaged.name} is missing"):
        pack(run, tmp_path / "pack.zip")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


KINDS = {
    "list": "gapbench.json",
    "tables": "run.sqlite",
    "audit": "invariances.json",
    "entry": "entries/[1-9a-f]",
    "withdrawn": "entries/withdrawn/",
    "weights": "weights/",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_flipped_byte_is_refused_by_the_name_of_the_member(
    packed: tuple[Path, Path], tmp_path: Path, kind: str, place: float
) -> None:
    import re

    with zipfile.ZipFile(packed[1]) as archive:
        info = next(i for i in archive.infolist() if re.match(KINDS[kind], i.filename))
        begin = info.header_offset + 30 + len(info.filename)
    damaged = bytearray(packed[1].read_bytes())
    damaged[begin + int(place * (info.file_size - 1))] ^= 0x40
    (tmp_path / "pack.zip").write_bytes(damaged)
    with pytest.raises(GapbenchError, match=re.escape(info.filename)):
        pull_pack(tmp_path / "pack.zip", tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["pack.zip"]


def rewritten(file: Path, to: Path, change: Callable[[dict[str, bytes]], None], relist: bool = True) -> Path:
    """A pack with other members, whose list says what they are."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    listed = json.loads(members.pop("gapbench.json"))
    change(members)
    if relist:
        listed["members"] = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name, data in members.items()
        }
    with zipfile.ZipFile(to, "w") as archive:
        archive.writestr("gapbench.json", json.dumps(listed))
        for name, data in members.items():
            archive.writestr(name, data)
    return to


@pytest.mark.parametrize(
    "name",
    [
        "../evil.txt",
        "/tmp/evil.txt",
        "weights/../../evil.safetensors",
        "weights/0123456789abcdef.safetensors/../../x",
        "..\\evil",
        "board/index.html",
        "driver.lock",
        "run.sqlite-wal",
        "entries/0123456789abcdef.json\n",
        "weights/",
    ],
)
def test_what_has_no_place_in_a_pack_is_refused(packed: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    evil = rewritten(packed[1], tmp_path / "pack.zip", lambda members: members.update({name: b"x"}))
    with pytest.raises(GapbenchError, match=r"has no place in a pack; nothing was taken of it"):
        pull_pack(evil, tmp_path / "a" / "run")
    assert sorted(p.name for p in tmp_path.rglob("*")) in (["pack.zip"], ["a", "pack.zip"])


def test_links_doubles_and_missing_members_are_refused(packed: tuple[Path, Path], tmp_path: Path) -> None:
    link = zipfile.ZipInfo(f"weights/{'a' * 16}.safetensors")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    first = next(n for n in zipfile.ZipFile(packed[1]).namelist() if n.startswith("weights"))
    for member, words in ((link, "has no place"), (first, "stands there twice")):
        file = shutil.copy(packed[1], tmp_path / "pack.zip")
        with (
            zipfile.ZipFile(file, "a") as archive,
            pytest.warns(UserWarning, match="Duplicate") if member == first else quiet(),
        ):
            archive.writestr(member, "/etc/passwd")
        with pytest.raises(GapbenchError, match=words):
            pull_pack(file, tmp_path / "run")
    lost = rewritten(packed[1], tmp_path / "lost.zip", lambda members: members.pop(first), relist=False)
    with pytest.raises(GapbenchError, match=f"{first}' is missing"):
        pull_pack(lost, tmp_path / "run")
    lost = rewritten(packed[1], tmp_path / "lost.zip", lambda members: members.pop(first))
    with pytest.raises(GapbenchError, match=f"{first}' is not the weights that its run.sqlite names"):
        pull_pack(lost, tmp_path / "run")
    other = rewritten(packed[1], tmp_path / "lost.zip", lambda members: members.update({first: b"other"}))
    with pytest.raises(GapbenchError, match=f"{first}' is not the weights"):
        pull_pack(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@contextmanager
def quiet() -> Iterator[None]:
    yield


def with_database(packed: tuple[Path, Path], tmp_path: Path, *statements: str) -> Path:
    """The pack with a changed database, whose list is as it should be."""
    file = tmp_path / "run.sqlite"

    def change(members: dict[str, bytes]) -> None:
        file.write_bytes(members["run.sqlite"])
        with sqlite3.connect(file) as database:
            for statement in statements:
                database.execute(statement)
        database.close()
        members["run.sqlite"] = file.read_bytes()
        file.unlink()

    return rewritten(packed[1], tmp_path / "pack.zip", change)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE VIEW more AS SELECT 1", "has a view 'more'"),
        ("CREATE TRIGGER more AFTER INSERT ON meta BEGIN DELETE FROM meta; END", "has a trigger 'more'"),
        ("DROP TABLE attempts", "has no table 'attempts'"),
        ("DELETE FROM meta WHERE name = 'suite'", "no suite was run there"),
        ("UPDATE meta SET value = '[1' WHERE name = 'plan'", "no sound run: .*plan is no JSON"),
        ("UPDATE meta SET value = '[\"a\"]' WHERE name = 'plan'", "says that it holds the population"),
    ],
)
def test_a_database_that_is_none_of_a_run_is_refused(
    packed: tuple[Path, Path], tmp_path: Path, statement: str, words: str
) -> None:
    evil = with_database(packed, tmp_path, statement)
    with pytest.raises(GapbenchError, match=words) as refused:
        pull_pack(evil, tmp_path / "run")
    assert "pulling-" not in str(refused.value)
    assert [p.name for p in tmp_path.iterdir()] == ["pack.zip"]


def test_what_is_no_pack_is_refused(packed: tuple[Path, Path], tmp_path: Path) -> None:
    for name, data in (("page.zip", b"<html>not found</html>"), ("empty.zip", b""), ("cut.zip", b"PK\3\4")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(GapbenchError, match="is no pack of a run"):
            pull_pack(tmp_path / name, tmp_path / "run")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(GapbenchError, match=r"its first member is not gapbench.json"):
        pull_pack(tmp_path / "other.zip", tmp_path / "run")
    half = packed[1].read_bytes()
    (tmp_path / "half.zip").write_bytes(half[: len(half) // 2])
    with pytest.raises(GapbenchError, match="is no pack of a run, or is damaged"):
        pull_pack(tmp_path / "half.zip", tmp_path / "run")
    with pytest.raises(GapbenchError, match="has not the sha256"):
        pull_pack(packed[1], tmp_path / "run", sha256="0" * 64)
    with pytest.raises(GapbenchError, match="There is no"):
        pull_pack(tmp_path / "nowhere.zip", tmp_path / "run")
    with pytest.raises(GapbenchError, match="folder of 5 packs"):
        pull_pack(tmp_path, tmp_path / "run")
    with pytest.raises(GapbenchError, match="foo://x/y cannot be read"):
        pull_pack("foo://x/y", tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Server(http.server.ThreadingHTTPServer):
    """Serves one file; `breaks` are the numbers of bytes after which answers break off, one answer each."""

    def __init__(self, data: bytes, breaks: list[int], ranges: bool = True, tag: bool = True):
        self.data, self.breaks, self.ranges, self.tag = data, breaks, ranges, tag
        self.asked: list[str] = []
        self.sent = 0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/pack.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        own = self.server
        asked = self.headers.get("Range") or ""
        own.asked.append(asked)
        tag = f'"{hashlib.sha256(own.data).hexdigest()[:8]}"'
        start = 0
        if asked and own.ranges and self.headers.get("If-Range") in (None, tag):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(own.data) - 1}/{len(own.data)}")
        else:
            self.send_response(200)
        if own.tag:
            self.send_header("ETag", tag)
        body = own.data[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        body = body[: own.breaks.pop(0)] if own.breaks else body
        own.sent += len(body)
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(data: bytes, breaks: list[int], **options: bool) -> Iterator[Server]:
    with Server(data, breaks, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("ranges", "tag"), [(True, True), (False, True), (True, False)], ids=["ranges", "none", "untagged"]
)
def test_a_download_that_breaks_off_twice_arrives(
    packed: tuple[Path, Path], tmp_path: Path, ranges: bool, tag: bool
) -> None:
    run, file = packed
    data = file.read_bytes()
    said: list[str] = []
    with serving(data, [1000, len(data) // 2], ranges=ranges, tag=tag) as server:
        done = pull_pack(server.address, tmp_path / "run", say=said.append)
    same_run(done.folder, run)
    assert len(server.asked) == 3
    assert sum("broke off" in line for line in said) == 2
    if ranges and tag:
        assert server.asked == ["", "bytes=999-", f"bytes={999 + len(data) // 2 - 1}-"]
        assert server.sent == len(data) + 2  # one byte again each time
    else:
        assert server.sent == 1000 + len(data) // 2 + len(data)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.usefixtures("quick")
def test_another_call_goes_on_where_one_gave_up_unless_the_file_is_another(
    packed: tuple[Path, Path], tmp_path: Path
) -> None:
    run, file = packed
    data = file.read_bytes()
    with serving(data, [5000, *[0] * 20]) as server:
        with pytest.raises(GapbenchError, match=r"broke off after 4,99\d of .* the same command goes on"):
            pull_pack(server.address, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        server.breaks.clear()
        kept = sum(p.stat().st_size for p in tmp_path.rglob("partial"))
        server.asked.clear()
        pull_pack(server.address, tmp_path / "run")
        assert server.asked == [f"bytes={kept - 1}-"]
        same_run(tmp_path / "run", run)
        server.breaks += [5000, *[0] * 20]
        with pytest.raises(GapbenchError, match="broke off"):
            pull_pack(server.address, tmp_path / "changed")
        server.breaks.clear()
        changed_file = pack(shutil.copytree(run, tmp_path / "copy"), tmp_path / "x.zip").path
        server.data = rewritten(changed_file, tmp_path / "y.zip", lambda members: None).read_bytes()
        pull_pack(server.address, tmp_path / "changed")
        same_run(tmp_path / "changed", run)
        server.data = data[:-300] + bytes(300)
        with pytest.raises(GapbenchError, match="no pack"):
            pull_pack(server.address, tmp_path / "damaged")
        server.data = data
        pull_pack(server.address, tmp_path / "damaged")  # nothing of the damaged one was kept


@pytest.mark.usefixtures("quick")
def test_an_address_without_a_pack_is_one_message(tmp_path: Path) -> None:
    with serving(b"<html></html>", []) as server:
        with pytest.raises(GapbenchError, match="is no pack of a run"):
            pull_pack(server.address, tmp_path / "run")
        address = server.address
    with pytest.raises(GapbenchError, match=r"could not be fetched: .*refused"):
        pull_pack(address, tmp_path / "run")


def test_a_folder_an_address_of_a_file_and_stores_of_fsspec(
    packed: tuple[Path, Path], tmp_path: Path
) -> None:
    import fsspec

    run, file = packed
    memory = fsspec.filesystem("memory")
    memory.pipe("/shelf/pack.zip", file.read_bytes())
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    shutil.copy(file, shelf / "pack.zip")
    sources = [
        str(run),
        str(shelf),
        shelf.joinpath("pack.zip").as_uri(),
        shelf.as_uri(),
        f"local://{shelf}/pack.zip",
        "memory://shelf/pack.zip",
        "memory://shelf",
    ]
    try:
        for number, source in enumerate(sources):
            same_run(pull_pack(source, tmp_path / str(number)).folder, run)
    finally:
        memory.rm("/shelf", recursive=True)
    with pytest.raises(GapbenchError, match=r"There is no memory://shelf/pack.zip"):
        pull_pack("memory://shelf/pack.zip", tmp_path / "x")
    left = [p.name for p in tmp_path.iterdir() if p.name.startswith(".") and any(p.rglob("partial"))]
    assert left == []


@pytest.mark.usefixtures("quick")
def test_a_store_of_fsspec_that_breaks_off_is_read_on(packed: tuple[Path, Path], tmp_path: Path) -> None:
    import fsspec

    run, file = packed
    data = file.read_bytes()
    places: list[int] = []

    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            places.append(self.tell())
            if len(places) in (2, 4):
                raise ConnectionResetError("reset by peer")
            return super().read(20_000)

    class System:
        def info(self, path: str) -> dict[str, object]:
            return {"size": len(data), "ETag": "x"}

        def open(self, path: str, mode: str) -> Breaking:
            return Breaking(data)

        def isdir(self, path: str) -> bool:
            return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsspec.core, "url_to_fs", lambda address: (System(), "pack.zip"))
        same_run(pull_pack("s3://bucket/pack.zip", tmp_path / "run").folder, run)
    assert places[:6] == [0, 20_000, 19_999, 39_999, 39_998, 59_998]


def test_a_repository_of_hugging_face(
    packed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of huggingface_hub, which is not reached from here."""
    import huggingface_hub

    run, file = packed
    asked: list[tuple[object, ...]] = []
    listed = {"dataset": ["README.md", "pack.zip"]}

    class Api:
        def __init__(self, endpoint: str | None = None):
            pass

        def list_repo_files(self, repository: str, repo_type: str, revision: str | None) -> list[str]:
            asked.append((repository, repo_type, revision))
            if repo_type not in listed:
                raise OSError("404 Client Error")
            return listed[repo_type]

    def download(repository: str, file_name: str, *, repo_type: str, local_dir: Path, **_: object) -> str:
        return shutil.copy(file, local_dir / file_name)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    same_run(pull_pack("hf://someone/quick-nets", tmp_path / "a").folder, run)
    same_run(pull_pack("hf://datasets/someone/quick-nets@v1/pack.zip", tmp_path / "b").folder, run)
    assert asked == [("someone/quick-nets", "dataset", None)]
    listed["model"] = listed.pop("dataset")
    same_run(pull_pack("hf://someone/quick-nets", tmp_path / "c").folder, run)
    listed["model"] = ["a.zip", "b.zip"]
    with pytest.raises(GapbenchError, match="has 2 packs"):
        pull_pack("hf://someone/quick-nets", tmp_path / "d")
    listed.clear()
    with pytest.raises(GapbenchError, match="could not be fetched: 404 Client Error"):
        pull_pack("hf://someone/quick-nets", tmp_path / "d")
    with pytest.raises(GapbenchError, match="give hf://ORG/NAME"):
        pull_pack("hf://someone", tmp_path / "d")


@pytest.mark.usefixtures("quick")
def test_a_kill_at_any_step_of_packing_and_pulling_leaves_nothing_half(
    packed: tuple[Path, Path], tmp_path: Path
) -> None:
    run, file = packed
    place = tmp_path / "place"

    def packing() -> None:
        pack(run, place / "pack.zip")

    with serving(file.read_bytes(), []) as server:

        def pulling() -> None:
            pull_pack(server.address, place / "run")

        for call, name in ((packing, "pack.zip"), (pulling, "run")):
            place.mkdir()
            steps = steps_of(call, MODULES)
            shutil.rmtree(place)
            for step in chosen(steps, 9):
                place.mkdir()
                assert killed(call, MODULES, step)
                if call is packing and (place / name).exists():
                    assert (place / name).read_bytes() == file.read_bytes()
                elif (place / name).exists():
                    same_run(place / name, run)
                call()
                assert [p.name for p in place.iterdir() if not p.name.startswith(".fetching")] == [name]
                if call is packing:
                    assert (place / name).read_bytes() == file.read_bytes()
                else:
                    same_run(place / name, run)
                    assert not any(place.rglob("partial"))
                shutil.rmtree(place)


@pytest.mark.usefixtures("quick")
def test_a_sigkill_in_a_download_keeps_what_has_arrived(packed: tuple[Path, Path], tmp_path: Path) -> None:
    run, file = packed
    code = (
        "import time\n"
        "from gapbench.runs import fetching, pulling\n"
        "fetching.BLOCK = 8192\n"
        "blocks = fetching._blocks\n"
        "def slow(stream):\n"
        "    for number, block in enumerate(blocks(stream)):\n"
        "        if number == 3:\n            print('arrived', flush=True)\n            time.sleep(60)\n"
        "        yield block\n"
        "fetching._blocks = slow\n"
    )
    with serving(file.read_bytes(), []) as server:
        code += f"pulling.pull_pack({server.address!r}, {str(tmp_path / 'run')!r})\n"
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "arrived\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert not (tmp_path / "run").exists()
        kept = next(tmp_path.rglob("partial")).stat().st_size
        assert kept > 0
        pull_pack(server.address, tmp_path / "run")
    assert server.asked == ["", f"bytes={kept - 1}-"]
    same_run(tmp_path / "run", run)


@pytest.mark.slow
def test_a_pulled_run_takes_submissions(entered_once, hosts, tmp_path: Path) -> None:
    folder, before = entered_once
    pulled = pull_pack(folder, tmp_path / "run").folder
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    assert not submit(file, pulled, hosts=hosts, unsandboxed=bool(WALLS), name="a_norm").changed
    done = submit(file, pulled, hosts=hosts, unsandboxed=bool(WALLS), name="once more")
    assert done.entry is not None
    assert {c: v.value for c, v in done.entry.values.items()} == {
        c: v.value for c, v in before.values.items()
    }
    assert done.entry.population.fingerprint == open_run(folder).identity.fingerprint
    assert "once more" in (pulled / "board" / "scores.csv").read_text()
