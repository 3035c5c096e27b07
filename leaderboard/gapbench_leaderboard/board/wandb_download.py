"""Downloads artifacts from wandb, in a process of its own that its parent may end: `python -m ... SPECIFICATION`.

A line `done NAME` on standard output says that an artifact is complete, a line `error TEXT` why one is not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def download(specification: dict[str, Any]) -> None:
    """Each artifact into its folder."""
    import wandb

    path = specification["project"]
    try:
        api = wandb.Api(timeout=60)
        owner = specification["entity"] or api.default_entity
        for wanted in specification["artifacts"]:
            path = f"{owner}/{specification['project']}/{wanted['name']}:{wanted['alias']}"
            artifact = api.artifact(path, type=wanted["type"])
            artifact.download(root=wanted["folder"], skip_cache=True)
            print("done", wanted["name"], flush=True)
    except Exception as error:  # whatever wandb raises is said in words
        print("error", f"{path}: {' '.join(str(error).split())[:500]}", flush=True)


if __name__ == "__main__":
    download(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
