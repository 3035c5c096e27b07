"""First paint and filter times of the page on a large board: `python performance/board_page.py [PROXIES NETWORKS]`.

Needs Chromium. Prints seconds for building the board, until the first paint, until the page is drawn, and for a
change of each filter (script and layout).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "leaderboard")]

from gapbench_leaderboard.board import build  # noqa: E402
from leaderboard.board_cases import large  # noqa: E402
from leaderboard.chromium import browser, find_chromium  # noqa: E402

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
            for name, value, event in (
                ("task", "task 1", "change"),
                ("family", "family/2", "change"),
                ("target", "loss_gap", "change"),
                ("search", "proxy_01", "input"),
                ("search", "", "input"),
                ("plot-proxy", "proxy_002", "change"),
            ):
                took = page.value(CHANGE % (name, value, event))
                print(f"{name:<16} {took:8.0f} ms")


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:3]] or [200, 5000]
    main(*sizes)
