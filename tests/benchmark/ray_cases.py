"""The worker processes of a local Ray cluster, for tests that end them."""

from __future__ import annotations

from pathlib import Path


def workers_of(cluster) -> list[int]:
    """The processes of the cluster that do jobs."""
    raylets = {node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            name = folder.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if parent in raylets and b"gapbench_job" in name:
            found.append(int(folder.name))
    return found
