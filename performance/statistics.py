"""Speed of the statistics; runs scoring.py beside it, with the same arguments: `python performance/statistics.py`.

A file of this name hides the standard library's `statistics` from every script of this folder, whose path Python
searches first. Whoever imports it from here is given that module, and no longer finds this folder.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]

if __name__ == "__main__":
    runpy.run_path(str(HERE / "scoring.py"), run_name="__main__")
else:
    del sys.modules[__name__]
    importlib.import_module(__name__)
