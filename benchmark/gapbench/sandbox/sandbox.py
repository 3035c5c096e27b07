"""The trusted side: send networks to a sandboxed process, take back numbers within the limits."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import msgspec

from gapbench.proxies.results import Measurement, MeasurementStatus
from gapbench.sandbox.launching import START_SECONDS, Host
from gapbench.sandbox.limits import LATE, Limits
from gapbench.sandbox.protocol import LONGEST_LINE, Garbled, clean, frame, number, parse_line
from gapbench.sandbox.source import ProxyFile
from gapbench.sandbox.waiting import told

if TYPE_CHECKING:
    from gapbench.sandbox.handover import Handover

MOST_PATIENCE = 10
"""Times its limit that a process may take, however long it waited for a processor: it can make itself wait."""


@dataclass(frozen=True)
class Answer:
    """A measurement with what was refused meanwhile, in words, and the beginning of what was printed."""

    measurement: Measurement
    violations: tuple[str, ...] = ()
    output: str = ""


@dataclass(frozen=True)
class Loaded:
    """What a proxy's file registers: `proxies` (their descriptions), or the `reason` it cannot be loaded."""

    proxies: tuple[dict[str, Any], ...] = ()
    reason: str = ""
    violations: tuple[str, ...] = ()
    output: str = ""


@dataclass
class _Stream:
    """What one process said so far."""

    buffer: bytearray = field(default_factory=bytearray)
    printed: bytearray = field(default_factory=bytearray)
    printed_bytes: int = 0
    violations: list[str] = field(default_factory=list)
    exit_code: int | None = None
    closed: bool = False


class Session:
    """One sandboxed process that has loaded one proxy. Use as a context manager; `loaded` says what it found.

    `disturbed`: under another clock and another global random state, for comparison.
    """

    def __init__(
        self,
        host: Host,
        source: ProxyFile,
        limits: Limits,
        *,
        proxy: str | None = None,
        options: Mapping[str, object] | None = None,
        disturbed: bool = False,
        modules: list[str] | None = None,
        data_bytes: int = 0,
    ):
        self.host, self.limits = host, limits
        self._name = secrets.token_hex(8)
        self._jobs = 0
        self._stream = _Stream()
        self._setup = {
            "file": source.file_name,
            "limits": limits.as_dict(),
            "data_memory": 4 * data_bytes,
            "disturb": disturbed,
            "proxy": proxy,
            "options": dict(options or {}),
        }
        self._source, self._modules = source, modules or []
        self.loaded = Loaded(reason="it was not started")

    def __enter__(self) -> Self:
        jobs, self._writer = os.pipe()
        self._reader, results = os.pipe()
        self._printed, output = os.pipe()
        self._clock = tempfile.TemporaryFile()
        try:
            self._folder = self.host.start(
                self._name, self._modules, self.limits, [jobs, results, output, self._clock.fileno()]
            )
        finally:
            for descriptor in (jobs, results, output):
                os.close(descriptor)
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._reader, self._printed):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)
        self.loaded = self._load()
        return self

    def __exit__(self, *_: object) -> None:
        self.host.kill(self._name)
        self._selector.close()
        for descriptor in (self._writer, self._reader, self._printed):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._clock.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def end(self) -> None:
        """End the process; what is awaited from it fails at once."""
        self.host.kill(self._name)

    @property
    def usable(self) -> bool:
        """Whether another network can be measured in this process."""
        return not self.loaded.reason and not self._stream.closed

    def _load(self) -> Loaded:
        self._send(self._setup, self._source.content)
        # The start of the process, imports of the network's libraries included, is not the proxy's time.
        message, trouble = self._await({"started"}, START_SECONDS)
        if message is not None:
            message, trouble = self._await({"loaded", "unloadable"}, self.limits.load_seconds)
        output = self._output()
        violations = tuple(self._stream.violations)
        if message is None:
            return Loaded(reason=f"importing the file: {trouble}", violations=violations, output=output)
        if message["kind"] == "unloadable":
            self._stream.closed = True
            return Loaded(reason=clean(message.get("reason", "")), violations=violations, output=output)
        proxies = message.get("proxies")
        if not isinstance(proxies, list) or not all(isinstance(entry, dict) for entry in proxies):
            return Loaded(reason="it sent a garbled list of proxies", violations=violations, output=output)
        return Loaded(proxies=tuple(proxies), violations=violations, output=output)

    def measure(self, given: Handover | bytes, seed: int, loss: str = "cross_entropy") -> Answer:
        """Measure one network; every way to fail is a measurement with status `failed` and its reason."""
        if isinstance(given, bytes):
            blob = given
        else:
            blob, loss = given.packed(), given.loss
        job, self._jobs = self._jobs, self._jobs + 1
        name = str(self._setup["proxy"] or "proxy")
        already = len(self._stream.violations)
        token = secrets.token_hex(16)
        self._send({"job": job, "seed": seed, "loss": loss, "token": token}, blob)
        begun, trouble = self._await({"begun"}, START_SECONDS, job)
        started = time.perf_counter()
        message = None
        if begun is not None:
            message, trouble = self._await({"result"}, self.limits.seconds, job)
        seconds = time.perf_counter() - started
        violations = tuple(self._stream.violations[already:])
        status: MeasurementStatus = "failed"
        value, error, reason, memory = None, None, trouble, None
        details: dict[str, object] = {}
        if message is not None:
            try:
                if message.get("token") != token:
                    self._give_up("")
                    raise Garbled("a result that the measurement did not make")
                status, value, error, reason, details, memory = _checked(message)
            except Garbled as garbled:
                reason = f"it sent {garbled}"
        if violations:
            status, value, error = "failed", None, None
            own = f" ({reason})" if reason and message is None else ""
            reason = "; ".join(violations) + own
        found = Measurement(name, value, error, seconds, status, clean(reason), details, memory)
        return Answer(found, violations, self._output())

    def _send(self, header: Mapping[str, object], blob: bytes) -> None:
        """Write in a thread: a process that does not read must not stop this one."""
        parts = frame(header, blob)
        descriptor = os.dup(self._writer)

        def write() -> None:
            try:
                for part in parts:
                    view = memoryview(part)
                    while view:
                        view = view[os.write(descriptor, view[: 2**20]) :]
            except OSError:
                pass  # it ended; that is noticed by reading
            finally:
                os.close(descriptor)

        threading.Thread(target=write, daemon=True).start()

    def _await(
        self, kinds: set[str], seconds: float, job: int | None = None
    ) -> tuple[dict[str, object] | None, str]:
        """Await a message of one of the kinds; a process that does not send it is ended.

        What it waited for a processor is not counted.

        Returns:
            The message, or None and why there is none.
        """
        started, waited = time.monotonic(), told(self._clock.fileno())
        most = len(self._stream.violations) + 100
        while True:
            while (message := self._next_line()) is not None:
                try:
                    parsed = parse_line(message)
                except Garbled as garbled:
                    return self._give_up(f"it sent {garbled}")
                if parsed["kind"] == "violation":
                    self._stream.violations.append(clean(parsed.get("what", ""), 300))
                    if len(self._stream.violations) > most:
                        return self._give_up("it was refused too many things")
                elif parsed["kind"] == "ended":
                    self._stream.closed = True
                    return None, _ended(parsed.get("code"))
                elif parsed["kind"] in kinds and parsed.get("job") == job:
                    return parsed, ""
            if len(self._stream.buffer) > LONGEST_LINE:
                return self._give_up("it sent more than the protocol allows")
            patience = seconds + told(self._clock.fileno()) - waited
            left = started + min(patience, MOST_PATIENCE * seconds) - time.monotonic()
            if left <= 0:
                return self._give_up(f"{LATE} {seconds:g} s")
            if self._stream.closed:
                return None, "the process ended without a result"
            for key, _ in self._selector.select(left):
                self._take(int(key.fd))
            if self._stream.printed_bytes > self.limits.output:
                return self._give_up(f"it printed more than {self.limits.output / 2**20:g} MiB")

    def _take(self, descriptor: int) -> bool:
        """Whether there was something to take."""
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            return False
        if not part:
            self._selector.unregister(descriptor)
            if descriptor == self._reader:
                self._stream.closed = True
        elif descriptor == self._reader:
            self._stream.buffer += part
        else:
            self._stream.printed_bytes += len(part)
            self._stream.printed += part[: max(0, 4096 - len(self._stream.printed))]
        return bool(part)

    def _next_line(self) -> bytes | None:
        while True:
            end = self._stream.buffer.find(b"\n")
            if end < 0:
                return None
            line = bytes(self._stream.buffer[:end])
            del self._stream.buffer[: end + 1]
            if line.strip():
                return line

    def _give_up(self, why: str) -> tuple[None, str]:
        self._stream.closed = True
        self.host.kill(self._name)
        return None, why

    def _output(self) -> str:
        """What was printed since it was last asked."""
        registered = self._printed in self._selector.get_map()
        while registered and self._stream.printed_bytes <= self.limits.output and self._take(self._printed):
            pass
        text = self._stream.printed.decode(errors="replace")
        self._stream.printed.clear()
        return "\n".join(clean(line, 300) for line in text.splitlines()[-20:])


def _ended(code: object) -> str:
    if isinstance(code, int) and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the process was ended by {name}"
    return f"the process ended with exit status {code} before it gave a result"


def _checked(
    message: Mapping[str, object],
) -> tuple[MeasurementStatus, float | None, float | None, str, dict[str, object], float | None]:
    """A result's fields. Raises `Garbled`."""
    try:
        status = msgspec.convert(message.get("status"), MeasurementStatus)
    except msgspec.ValidationError:
        raise Garbled("a result without a status") from None
    reason = clean(message.get("reason", ""))
    memory = message.get("peak_memory")
    memory = None if memory is None else number(memory, "peak memory", 0.0)
    if status != "ok":
        return status, None, None, reason or "no reason given", {}, memory
    value = number(message.get("value"), "value")
    error = message.get("standard_error")
    error = None if error is None else number(error, "standard error", 0.0)
    details = message.get("details")
    return "ok", value, error, "", details if isinstance(details, dict) else {}, memory
