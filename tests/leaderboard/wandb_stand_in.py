"""A stand-in for wandb's server on the loopback address: keeps what it is sent, and answers as much as uploads and
downloads of runs, files and artifacts need. It knows nothing of permissions, history or the web page.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

ENTITY = "somebody"


@dataclass
class StandIn:
    """What the server was sent; runs by identifier, artifacts by name."""

    address: str = ""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """By `run/file` and, for artifacts, by `artifact/<id>/<path>`."""
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id."""
    unknown: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    broken_after: int | None = None
    """Completed runs after which every request hangs up: a kill or a lost network in the middle."""

    @property
    def complete(self) -> list[str]:
        return [name for name, run in self.runs.items() if run.get("complete")]

    def versions(self, name: str) -> list[dict[str, Any]]:
        """Committed versions of an artifact, oldest first."""
        return [a for a in self.artifacts.values() if a["name"] == name and a["state"] == "COMMITTED"]


def graphql(server: StandIn, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to one operation; an empty one, and a note, for those it does not know."""
    named = re.search(r"(?:query|mutation)\s+(\w+)", body.get("query", ""))
    name, given = named[1] if named else "", body.get("variables") or {}
    server.operations.append(name)
    answer = ANSWERS.get(name)
    if answer is None:
        server.unknown.append(f"{name} {given} {body.get('query', '')}")
        return {}
    try:
        return answer(server, given)
    except (KeyError, TypeError) as error:
        server.unknown.append(f"{name}: {error!r} {given} {body.get('query', '')}")
        return {}


def _viewer(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    edges = {"edges": [{"node": {"name": ENTITY}}]}
    return {
        "viewer": {
            "id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "teams": edges,
        }
    }  # fmt: skip


def _resume(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    run = server.runs.get(given["name"])
    bucket = None
    if run is not None:
        bucket = {
            "id": given["name"], "name": given["name"], "displayName": run["displayName"], "logLineCount": 0,
            "historyLineCount": run["history"], "eventsLineCount": 0, "historyTail": "[]", "eventsTail": "[]",
            "summaryMetrics": json.dumps(run["summary"]), "config": json.dumps(run["config"]),
            "tags": run["tags"], "notes": None, "wandbConfig": json.dumps({"t": 1}),
        }  # fmt: skip
    entity = {"id": "1", "name": ENTITY}
    return {"model": {"id": "1", "name": given["project"], "entity": entity, "bucket": bucket}}


def _upsert(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    name = given["name"]
    new = name not in server.runs
    run = server.runs.setdefault(
        name, {"summary": {}, "config": {}, "tags": [], "displayName": name, "history": 0, "complete": False}
    )
    for key in ("tags", "displayName", "groupName", "jobType", "project"):
        if given.get(key) is not None:
            run[key] = given[key]
    if given.get("config"):
        run["config"] = json.loads(given["config"])
    project = {"id": "1", "name": given["project"], "entity": {"id": "1", "name": ENTITY}}
    bucket = {
        "id": name, "name": name, "displayName": run["displayName"], "description": None, "config": None,
        "sweepName": None, "project": project, "historyLineCount": run["history"],
    }  # fmt: skip
    return {"upsertBucket": {"bucket": bucket, "inserted": new}}


def _run_files(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    files = [
        {"name": f, "uploadUrl": f"{server.address}/storage/{quote(given['run'] + '/' + f)}"}
        for f in given["files"]
    ]
    return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}


def _artifact_type(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    return {"project": None}


def _features(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    return {"serverInfo": {"features": []}}


def _create_artifact(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    """A digest that the collection has already is the version that it has, as the real server decides."""
    wanted = given.get("input", given)
    name = wanted["artifactCollectionName"]
    aliases = [alias["alias"] for alias in wanted["aliases"] or []]
    same = [a for a in server.versions(name) if a["digest"] == wanted["digest"]]
    if same:
        found = same[-1]
        found["aliases"] = sorted({*found["aliases"], *aliases})
    else:
        identity = f"artifact{len(server.artifacts)}"
        found = {
            "id": identity, "name": name, "type": wanted["artifactTypeName"], "digest": wanted["digest"],
            "state": "PENDING", "aliases": aliases, "metadata": wanted.get("metadata"), "manifest": None,
        }  # fmt: skip
        server.artifacts[identity] = found
    versions = server.versions(name)
    latest = {"id": versions[-1]["id"]} if versions else None
    return {
        "createArtifact": {
            "artifact": {
                "id": found["id"], "state": found["state"], "artifactSequence": {"latestArtifact": latest},
            }
        }
    }  # fmt: skip


def _manifest(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    identity = given.get("artifactID") or given["artifactManifestID"]
    place = f"artifact/{identity}/wandb_manifest.json"
    file = {"id": place, "uploadUrl": f"{server.address}/storage/{place}", "uploadHeaders": []}
    answer = {"artifactManifest": {"id": identity, "file": file}}
    return {"createArtifactManifest": answer, "updateArtifactManifest": answer}


def _artifact_files(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    edges = []
    for spec in given.get("input", given)["artifactFiles"]:
        place = f"artifact/{spec['artifactID']}/{spec['name']}"
        node = {
            "id": place, "name": spec["name"], "displayName": spec["name"],
            "uploadUrl": f"{server.address}/storage/{quote(place)}", "uploadHeaders": [], "storagePath": place,
            "uploadMultipartUrls": None, "artifact": {"id": spec["artifactID"]},
        }  # fmt: skip
        edges.append({"node": node})
    return {"createArtifactFiles": {"files": {"edges": edges}}}


def _commit(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    found = server.artifacts[given["artifactID"]]
    found["state"] = "COMMITTED"
    found["manifest"] = json.loads(server.files[f"artifact/{found['id']}/wandb_manifest.json"])
    return {"commitArtifact": {"artifact": {"id": found["id"], "digest": found["digest"]}}}


def _membership(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    name, _, alias = given["name"].partition(":")
    found = [a for a in server.versions(name) if alias in a["aliases"]]
    if not found:
        return {"project": {"artifactCollectionMembership": None}}
    own, version = found[-1], len(server.versions(name)) - 1
    project = {"id": "1", "internalId": "1", "name": given["project"], "entity": {"name": ENTITY}}
    collection = {"__typename": "ArtifactSequence", "name": name, "project": project}
    files = (own["manifest"] or {})["contents"]
    artifact = {
        "__typename": "Artifact", "id": own["id"], "artifactSequence": collection, "versionIndex": version,
        "artifactType": {"name": own["type"]}, "description": None, "metadata": own["metadata"],
        "ttlDurationSeconds": -2, "ttlIsInherited": True, "tags": [], "historyStep": None,
        "state": own["state"], "size": 1, "digest": own["digest"], "commitHash": "x", "fileCount": len(files),
        "createdAt": "2026-01-01T00:00:00", "updatedAt": None,
    }  # fmt: skip
    aliases = [{"__typename": "ArtifactAlias", "id": a, "alias": a} for a in own["aliases"]]
    member = {
        "__typename": "ArtifactCollectionMembership", "id": own["id"], "versionIndex": version,
        "createdAt": "2026-01-01T00:00:00", "aliases": aliases, "artifactCollection": collection,
        "artifact": artifact,
    }  # fmt: skip
    return {"project": {"artifactCollectionMembership": member}}


def _current_manifest(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    place = f"{server.address}/storage/artifact/{given['id']}/wandb_manifest.json"
    return {"artifact": {"currentManifest": {"file": {"directUrl": place}}}}


def _file_urls(server: StandIn, given: dict[str, Any]) -> dict[str, Any]:
    own = server.versions(given["collection"])[int(given["alias"].removeprefix("v"))]
    edges = [
        {
            "node": {
                "__typename": "File", "name": name,
                "directUrl": f"{server.address}/storage/{quote('artifact/' + own['id'] + '/' + name)}",
            }
        }
        for name in own["manifest"]["contents"]
    ]  # fmt: skip
    page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
    collection = {
        "__typename": "ArtifactSequence", "artifactMembership": {"files": {"pageInfo": page, "edges": edges}},
    }  # fmt: skip
    return {"project": {"artifactCollection": collection}}


ANSWERS: dict[str, Any] = {
    "GetArtifactMembershipFileUrls": _file_urls,
    "FetchArtifactManifest": _current_manifest,
    "ArtifactMembershipByName": _membership,
    "GetDefaultEntity": _viewer,
    "CreateArtifactManifest": _manifest,
    "UpdateArtifactManifest": _manifest,
    "CreateArtifactFiles": _artifact_files,
    "CommitArtifact": _commit,
    "ServerFeaturesQuery": _features,
    "CreateArtifact": _create_artifact,
    "ArtifactType": _artifact_type,
    "Viewer": _viewer,
    "RunResumeStatus": _resume,
    "UpsertBucket": _upsert,
    "CreateRunFiles": _run_files,
}


def stream(server: StandIn, run: str, body: dict[str, Any]) -> None:
    """One message of a run's file stream: its summary, its history, its end."""
    kept = server.runs[run]
    files = body.get("files") or {}
    for line in (files.get("wandb-summary.json") or {}).get("content", []):
        kept["summary"] = json.loads(line)
    kept["history"] += len((files.get("wandb-history.jsonl") or {}).get("content", []))
    if body.get("complete"):
        kept["complete"] = True


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """A running server."""
    state = StandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                content = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    content += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content

        def broken(self) -> bool:
            if state.broken_after is None or len(state.complete) < state.broken_after:
                return False
            self.close_connection = True
            return True

        def answer(self, content: bytes, code: int = 200) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            content = state.files.get(unquote(self.path).removeprefix("/storage/"))
            self.answer(b"" if content is None else content, 404 if content is None else 200)

        def do_PUT(self) -> None:
            content = self.body()
            if not self.broken():
                state.files[unquote(self.path).removeprefix("/storage/")] = content
                self.answer(b"")

        def do_POST(self) -> None:
            content = self.body()
            if self.broken():
                return
            if not self.path.endswith(("/graphql", "/file_stream")):
                state.unknown.append(f"POST {self.path}")
                self.answer(b"{}")
                return
            body = json.loads(content)
            if self.path.endswith("/file_stream"):
                stream(state, self.path.split("/")[-2], body)
                self.answer(json.dumps({"exitcode": None, "limits": {}}).encode())
            else:
                self.answer(json.dumps({"data": graphql(state, body)}).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
