"""Everything in this folder, one after the other, into one file: `performance/results/NAME.md`.

    python performance/everything.py NAME [--device cpu|cuda] [--quick] [--only SCRIPT ...]

Each script compares within its own run, in turn, so that other work on the machine disturbs the ratios little;
what it prints is kept as it is, with date, versions and command. Where a peer is not installed its message stands
there instead. `--quick` is a stand-in size that shows that all of them work.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "peers.py": (["--repeats", "5"], ["--repeats", "1"]),
    "proxies.py": (["--networks", "resnet18-1/8", "vit", "convnext", "mobilenet"], ["--networks", "vit"]),
    "curvature.py": ([], ["--examples", "16"]),
    "statistics.py": ([], ["tau"]),
    "stacking.py": (["--rounds", "5"], ["--rounds", "1", "--only", "MLP-32, 8"]),
    "training.py": ([], ["--steps", "2", "--size", "16"]),
}
ON_DEVICE = ("stacking.py", "training.py")


def main() -> None:
    """Run the scripts and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", help="of the results' file, without .md: a processor or a card")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), default=list(SCRIPTS))
    arguments = parser.parse_args()
    import torch

    card = torch.cuda.get_device_name() if arguments.device == "cuda" else "one core of a CPU"
    lines = [
        f"# {arguments.name}",
        "",
        f"{datetime.datetime.now(datetime.UTC).date().isoformat()}; torch {torch.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, {card}; load {os.getloadavg()[0]:.1f} at the start.",
        "",
        f"`python performance/everything.py {' '.join(sys.argv[1:])}`",
    ]
    if arguments.device == "cpu":
        lines += ["", "No figure here was taken on a GPU."]
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    target = results / f"{arguments.name}.md"
    for script in arguments.only:
        options = list(SCRIPTS[script][arguments.quick])
        if script in ON_DEVICE:
            options += ["--device", arguments.device]
        print(f"{script} {' '.join(options)}", flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script), *options],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        text = done.stdout.strip()
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            text = f"{text}\nended with exit code {done.returncode}: {reason}".strip()
        table = text if "|--" in text else f"```\n{text}\n```"
        lines += ["", f"## {script}", "", table]
        target.write_text("\n".join(lines) + "\n")  # after each, so that nothing is lost
    print(target.name)


if __name__ == "__main__":
    main()
