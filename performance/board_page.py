"""First paint and filter times of the page on a large board: `python performance/board_page.py [PROXIES NETWORKS]`.

Needs Chromium. Prints seconds for building the board, until the first paint, until the page is drawn, and for a
change of each filter until the ranking has answered (script and layout).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "leaderboard")]

from gapbench_leaderboard.board import build  # noqa: E402
from leaderboard.board_cases import large  # noqa: E402
from leaderboard.chromium import browser, find_chromium  # noqa: E402

REPEATS = 7
CHANGES = (
    ("task", ("task 1", "task 2"), "change"),
    ("family", ("family/2", "family/3"), "change"),
    ("target", ("loss_gap", "gap"), "change"),
    ("cost-limit", ("0.05", "0.5"), "input"),
    ("search", ("proxy_01", ""), "input"),
    ("plot-proxy", ("proxy_002", "proxy_003"), "change"),
)
SETTLED = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 20)), 20))"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
CHANGE = """(() => { const e = document.getElementById(%r); e.value = %r; const start = performance.now();
  e.dispatchEvent(new Event(%r, {bubbles: true})); document.body.getBoundingClientRect();
  return performance.now() - start; })()"""


def main(proxies: int, networks: int) -> None:
    path = find_chromium()
    if path is None:
        sys.exit("needs Chromium (Debian package chromium, or GAPBENCH_CHROMIUM = its path)")
    given = large(proxies, networks, 16)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        build(Path(folder), **given)
        print(f"{proxies} proxies x {networks} networks, {len(given['scores'])} scores")
        print(f"build            {time.perf_counter() - start:8.2f} s")
        page_file = Path(folder) / "index.html"
        print(f"page             {page_file.stat().st_size / 2**20:8.1f} MiB")
        with browser(path) as page:
            page.resize(1280)
            page.open(page_file.as_uri())
            page.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
            print(f"first paint      {page.value(PAINT) / 1000:8.2f} s")
            loaded = page.value("performance.getEntriesByType('navigation')[0].loadEventEnd")
            print(f"drawn            {loaded / 1000:8.2f} s")
            page.value(SETTLED)
            print(f"change of            first   median  of {REPEATS}")
            for name, values, event in CHANGES:
                took = []
                for number in range(REPEATS):
                    took.append(page.value(CHANGE % (name, values[number % len(values)], event)))
                    page.value(SETTLED)  # the plots, which are drawn after the ranking has answered
                print(f"{name:<16} {took[0]:6.0f} ms {statistics.median(took):5.0f} ms", flush=True)


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:3]] or [200, 5000]
    main(*sizes)
