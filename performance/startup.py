"""How long the light commands take beside an import of torch, in one run: medians of interleaved repeats.

python performance/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from numpy import median

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "gapbench --help": ["-m", "gapbench", "--help"],
    "gapbench list models": ["-m", "gapbench", "list", "models"],
    "gapbench list proxies": ["-m", "gapbench", "list", "proxies"],
    "import torch": ["-c", "import torch"],
}
REPEATS = 5


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    return time.perf_counter() - started


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    torch_seconds = median(times["import torch"])
    print(f"{'command':24} {'median s':>9} {'of import torch':>16}")
    for name, values in times.items():
        middle = median(values)
        print(f"{name:24} {middle:9.2f} {middle / torch_seconds:16.2f}")


if __name__ == "__main__":
    main()
