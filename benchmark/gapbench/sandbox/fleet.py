"""Measure one proxy on many networks, each in a process of its own, in an order that says nothing."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapbench.proxies.results import Measurement
from gapbench.sandbox import bubblewrap
from gapbench.sandbox.launching import Host
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.sandbox import Answer, Loaded, Session
from gapbench.sandbox.source import ProxyFile
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.sandbox.handover import Handover


@dataclass(frozen=True)
class Assignment:
    """One measurement to be made. `make` builds the hand-over when its turn comes."""

    name: str
    make: Callable[[], Handover]
    seed: int
    disturbed: bool = False

    def sealed(self) -> Sealed:
        """With the hand-over built and packed."""
        given = self.make()
        return Sealed(
            self.name, given.packed(), tuple(given.modules()), given.loss, self.seed, self.disturbed
        )


@dataclass(frozen=True)
class Sealed:
    """An assignment that can be sent to another process or machine.

    Attributes:
        name: of the assignment.
        blob: the packed hand-over, of a network whose classes are in `modules`.
        modules: see there.
        loss: by which the network was trained.
        seed: of the measurement.
        disturbed: whether it is made under other surroundings.
    """

    name: str
    blob: bytes
    modules: tuple[str, ...]
    loss: str
    seed: int
    disturbed: bool


class Fleet:
    """Two hosts, and as many sessions at a time as wanted. Use as a context manager.

    The hosts are its own, or `hosts` that were started before. What is measured undisturbed and disturbed runs
    on different hosts, which have different hash seeds and
    addresses.
    """

    def __init__(
        self,
        source: ProxyFile,
        limits: Limits,
        *,
        sandboxed: bool,
        workers: int,
        proxy: str | None = None,
        options: Mapping[str, object] | None = None,
        packages: Sequence[str] = (),
        hosts: Sequence[Host] | None = None,
        preload: Sequence[str] = (),
    ):
        self.source, self.limits, self.workers = source, limits, workers
        self.proxy, self.options = proxy, dict(options or {})
        self._sandboxed, self._packages, self._given = sandboxed, packages, hosts
        self._preload = preload
        self._turn = threading.Lock()
        self._live: set[Session] = set()

    def __enter__(self) -> Fleet:
        if self._given is not None:
            self._stack, self._hosts = contextlib.ExitStack(), list(self._given)
            return self
        self._hosts = [Host(self._sandboxed, self._packages, self._preload) for _ in range(2)]
        with contextlib.ExitStack() as stack:
            for host in self._hosts:
                host.launch()
                stack.push(host)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def describe(self) -> Loaded:
        """Load the file, measure nothing."""
        with Session(self._hosts[0], self.source, self.limits) as session:
            return session.loaded

    def session(
        self, *, disturbed: bool = False, modules: list[str] | None = None, data_bytes: int = 0
    ) -> Session:
        """A session that may measure several networks one after the other."""
        return Session(
            self._hosts[1 if disturbed else 0],
            self.source,
            self.limits,
            proxy=self.proxy,
            options=self.options,
            disturbed=disturbed,
            modules=modules,
            data_bytes=data_bytes,
        )

    def measure(self, tasks: Sequence[Assignment]) -> Iterator[tuple[Assignment, Answer]]:
        """Measure every task in a fresh process.

        If the consumer stops early, what has not begun is not begun.

        Yields:
            Tasks with their answers as they come, in random order.
        """
        order = list(tasks)
        random.SystemRandom().shuffle(order)
        with ThreadPoolExecutor(self.workers) as pool:
            running: dict[Future[Answer], Assignment] = {}
            try:
                while order or running:
                    while order and len(running) < self.workers:
                        task = order.pop()
                        running[pool.submit(self._one, task)] = task
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield running.pop(future), future.result()
            finally:
                for future in running:
                    future.cancel()
                for session in list(self._live):  # nobody waits for these any more
                    session.end()

    def _one(self, task: Assignment) -> Answer:
        with self._turn:  # building uses torch's global generator for a moment
            sealed = task.sealed()
        return self.answer(sealed)

    def answer(self, task: Sealed) -> Answer:
        """Measure in a fresh process; every way to fail is an answer."""
        size, modules = len(task.blob), list(task.modules)
        with self.session(disturbed=task.disturbed, modules=modules, data_bytes=size) as session:
            if session.loaded.reason:
                failed = Measurement(self.proxy or "proxy", None, None, 0.0, "failed", session.loaded.reason)
                return Answer(failed, session.loaded.violations, session.loaded.output)
            self._live.add(session)
            try:
                answer = session.measure(task.blob, task.seed, task.loss)
            finally:
                self._live.discard(session)
        if session.loaded.violations:
            reason = "; ".join(session.loaded.violations)
            failed = Measurement(self.proxy or "proxy", None, None, 0.0, "failed", reason)
            return Answer(failed, session.loaded.violations, answer.output)
        return answer


def sandboxed(unsandboxed: bool) -> bool:
    """Whether there will be a sandbox. Raises `GapbenchError` where there can be none and that was not said."""
    if unsandboxed:
        return False
    reason = bubblewrap.unavailable()
    if reason:
        raise GapbenchError(
            f"Strangers' code is not run without a sandbox: {reason}. If you trust this file, say "
            "--unsandboxed: then limits on time and memory hold, and your files are not protected."
        )
    return True


def same_value(a: float, b: float) -> bool:
    """Whether two values agree to rounding in single precision."""
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
