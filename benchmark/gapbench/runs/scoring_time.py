"""How long scoring takes: told while it lasts, and predicted while networks are still trained."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gapbench.runs.countdown import SILENCE, Showing
from gapbench_base.durations import duration
from gapbench_base.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.runs.run import Run

EARLY = 0.15
"""Share of the scoring before which nothing is said of the rest: the first proxies take what all share."""
TRIED = 30
"""Networks of the trial, the first of the plan, which are of all tasks and families."""
PROXIES = 3
"""Proxies of the trial."""
OF_EACH = 0.09
"""What a further proxy costs, of what these three cost (`performance/scoring_time.py`, in `compact`)."""
GROWTH = 0.4
"""The power of the number of networks by which scoring is taken to grow: between what runs of `quick` showed (0.3,
from 24 networks to 368) and the 0.57 of the tables of `compact` (likewise)."""
BESIDES = 1.9
"""What a run's own scoring is taken to need, of a trial with the same networks: it has test examples as well."""
TYPICAL = 1.2
"""Seconds of the trial, as long as it has not ended."""
REST = 1.2
"""Scoring with what comes after it (what the population can decide, the files), of scoring alone."""
REMEMBERED = "scoring_time.json"
"""In the folder of a run: how long its last scoring took, and on which machine."""


def scored(run: Run, say: Callable[[str], None], **options: Any) -> pd.DataFrame:
    """The scores of a run, with a line at least every ten seconds.

    Args:
        run: whose scores.
        say: hears how far it is.
        options: of `Run.scores`.

    Returns:
        The scores.
    """
    began = time.monotonic()
    scores = _said(run, say, began, options)
    if not options:  # other targets or fewer proxies tell nothing of the whole
        _remember(run, time.monotonic() - began)
    return scores


def _said(run: Run, say: Callable[[str], None], began: float, options: dict[str, Any]) -> pd.DataFrame:
    last = began
    if isinstance(say, Showing):
        showing: Showing = say
        known = _known(run)
        showing.progress("scoring", 0, 100, known)

        def shown(share: float) -> None:
            left = rest(time.monotonic() - began, share, known)
            showing.progress("scoring", round(100 * share), 100, left)

        return run.scores(progress=shown, **options)
    known = _known(run)
    proxies = run.measurements["proxy"].nunique()
    say(f"Scoring {proxies} proxies on {len(run.rankable())} networks.")

    def progress(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SILENCE and 0 < share < 1:
            last = now
            left = rest(now - began, share, known)
            say(f"scored {share:.0%}{'' if left is None else f', about {duration(left)} left'}")

    return run.scores(progress=progress, **options)


def scoring_of(run: Run, more: int = 0) -> ScoringTime:
    """A prediction for a run that has its networks.

    Args:
        run: whose scoring; what this machine took for its last one tells more than a trial does.
        more: proxies that it will have more than now.

    Returns:
        The prediction.
    """
    networks = run.rankable()
    columns = list(dict.fromkeys(["cell", "task", "family", "width", *run.suite.axes]))
    rows = networks[networks["status"] == "converged"][columns].to_dict("records")
    noisy = "gap_noisy" in networks.columns
    proxies = int(run.measurements["proxy"].nunique()) + more
    return ScoringTime(
        [{str(k): v for k, v in row.items()} for row in rows],
        run.suite.axes,
        proxies,
        4 if noisy else 3,
        known=_known(run, more),
    )


def _known(run: Run, more: int = 0) -> float | None:
    """Seconds from the scoring of a run to its board, by its last one on this machine."""
    last = _last(run.folder)
    return None if last is None else last * _growth_of(run, more) * REST


def _growth_of(run: Run, more: int = 0) -> float:
    converged = int((run.rankable()["status"] == "converged").sum())
    return _growth(converged, int(run.measurements["proxy"].nunique()) + more)


def _growth(networks: int, proxies: int) -> float:
    """How the seconds of a scoring grow with both."""
    return math.pow(max(networks, 1), GROWTH) * max(0.5, 1 + OF_EACH * (proxies - PROXIES))


def _remember(run: Run, seconds: float) -> None:
    """Note what scoring took, in seconds for one network and three proxies."""
    _note(run.folder, seconds / _growth_of(run))


def _note(folder: Path, once: float) -> None:
    noted = json.dumps({"machine": platform.node(), "once": once}) + "\n"
    with contextlib.suppress(OSError):  # a folder that cannot be written has no board to wait for
        write_atomically(folder / REMEMBERED, noted)


def _last(folder: Path) -> float | None:
    """What `_remember` noted on this machine, None where it did not."""
    try:
        noted = json.loads((folder / REMEMBERED).read_text(encoding="utf-8"))
        once = float(noted["once"])
        return once if noted["machine"] == platform.node() and 0 < once < math.inf else None
    except (OSError, ValueError, TypeError, KeyError):  # a prediction must not end a run
        return None


def rest(passed: float, share: float, known: float | None = None) -> float | None:
    """Seconds until the board is there.

    Args:
        passed: seconds that the scoring took so far.
        share: of the scoring, how much that was.
        known: seconds that all of it is known to take; the less is done the more that counts.

    Returns:
        The seconds; None where too little is done to tell, and nothing is known.
    """
    if known is None:
        return passed * (REST - share) / share if share >= EARLY else None
    extrapolated, trust = (passed * REST / share if share else 0.0), 1 - (1 - share) ** 2
    return max(0.0, (1 - trust) * known + trust * extrapolated - passed)


class ScoringTime:
    """Predicts the seconds of scoring by a trial in a thread of its own, on numbers drawn for the same networks."""

    def __init__(
        self,
        networks: Sequence[Mapping[str, object]],
        axes: Sequence[str],
        proxies: int,
        targets: int,
        known: float | None = None,
    ):
        """`networks`: of each that there will be `cell`, `task`, `family`, `width` and its axes.

        `known` seconds are predicted without a trial.
        """
        self._known, self._networks = known, len(networks)
        tried = list(networks[:TRIED])
        grown = _growth(len(networks), proxies) / _growth(len(tried), PROXIES)
        self._times: float = grown * targets * BESIDES * REST
        self._grown = _growth(len(networks), proxies) * REST
        self._once, self._tried = TYPICAL, False
        arguments = (tried, tuple(axes))
        self._thread = threading.Thread(target=self._try, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def predicted(self, networks: int | None = None) -> float:
        """The seconds; those of a typical machine before the trial has ended, which the first call begins.

        Args:
            networks: so many are scored, all if None.

        Returns:
            The seconds.
        """
        share = 1.0 if networks is None else math.pow(max(networks, 1) / max(self._networks, 1), GROWTH)
        if self._known is not None:
            return self._known * share
        if self._thread.ident is None:
            self._thread.start()
        return self._once * self._times * share

    def wait(self) -> None:
        """Wait for the trial to end, if it has begun: it must not outlive the work that it is about."""
        if self._thread.ident is not None:
            self._thread.join()

    def _try(self, tried: Sequence[Mapping[str, object]], axes: Sequence[str]) -> None:
        try:
            population = _drawn(tried)
            _score(population, axes)  # what is only done once: imports, compiled code
            began = time.thread_time()
            _score(population, axes)
        except Exception:  # a prediction must not end a run
            return
        self._once, self._tried = time.thread_time() - began, True

    def note(self, folder: Path) -> None:
        """Wait for the trial and note what it told in the folder of a run that has not been scored here."""
        self.wait()
        if self._tried and _last(folder) is None:
            _note(folder, self.predicted() / self._grown)


def _drawn(networks: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """The networks with outcomes drawn at random."""
    import numpy as np
    import pandas as pd

    table = pd.DataFrame(list(networks)).assign(status="converged", test_size=1000)
    error = np.random.default_rng(0).random(len(table))
    return table.assign(gap=error, test_error=error, parameters=1000.0 * table["width"])


def _score(population: pd.DataFrame, axes: Sequence[str]) -> None:
    import numpy as np
    import pandas as pd

    from gapbench_leaderboard.scores import score_population

    random = np.random.default_rng(1)
    population = population.reset_index(drop=True)
    parts = [
        pd.DataFrame({"cell": population["cell"], "proxy": f"p{k}", "value": random.random(len(population))})
        for k in range(PROXIES)
    ]
    measurements = pd.concat(parts, ignore_index=True).assign(status="ok")
    score_population(population, measurements, axes=list(axes), workers=1)
