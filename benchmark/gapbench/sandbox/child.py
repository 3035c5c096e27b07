"""The sandboxed process of one proxy: reads networks from a pipe, measures, writes lines of JSON.

It never holds more than the proxy's source, a network, its initialisation and its training data. Networks
come as pickles made by the trusted side; nothing is unpickled there.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import torch
from torch import nn

from gapbench.proxies import guard, registry
from gapbench.proxies.context import Context
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import ProxyEntry
from gapbench.proxies.results import Estimate, NotApplicable
from gapbench.sandbox import seccomp
from gapbench.sandbox.disturbance import disturb_clock, disturb_random_state
from gapbench.sandbox.integrity import INITIAL, SIBLING, Snapshot, Surroundings
from gapbench.sandbox.protocol import LONGEST_DETAILS, MOST_VIOLATIONS, clean, read_frame
from gapbench.sandbox.watch import Watch

PLAIN: tuple[type, ...] = (bool, int, float)
Tell = Callable[[Mapping[str, object]], None]


def serve(jobs: int, results: int, folder: str, hidden: list[str], base_memory: int) -> None:
    """Load the proxy that the first frame holds, then measure until there are no more frames.

    `jobs` and `results` are descriptors of pipes, `folder` is private to this process, `hidden` are
    folders within the libraries' that the proxy is not to read.
    """
    tell = _teller(results)
    first = read_frame(jobs)
    if first is None:
        return
    setup, source = first
    path = os.path.join(folder, setup["file"])
    with open(path, "wb") as stream:
        stream.write(source)
    violations: list[str] = []

    def violated(what: str) -> None:
        if what not in violations and len(violations) < MOST_VIOLATIONS:
            violations.append(what)
            tell({"kind": "violation", "what": what})

    if setup["disturb"]:
        disturb_clock()
    _confine(setup, base_memory)
    snapshot = Snapshot()
    readable = [
        sys.prefix,
        sys.base_prefix,
        *(p for p in sys.path if p),
        "/usr",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
    ]
    watch = Watch(violated, os.path.realpath(path), readable, hidden, [folder])
    session = _Session(setup, watch, snapshot, violated, tell, violations)
    tell({"kind": "started"})
    if not session.load(path):
        return
    while (frame := read_frame(jobs)) is not None:
        session.measure(*frame)
        del frame


def _teller(descriptor: int) -> Tell:
    # Bound now, so that what the proxy puts into these modules is not called.
    dumps, write = json.dumps, os.write

    def tell(message: Mapping[str, object]) -> None:
        line = dumps(message, allow_nan=False).encode() + b"\n"
        while line:
            line = line[write(descriptor, line) :]

    return tell


def _confine(setup: Mapping[str, Any], base: int) -> None:
    """Limits and the filter of system calls; both hold for the rest of this process's life."""
    limits = setup["limits"]
    if base:
        size = int(base + setup["data_memory"] + limits["memory"])
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["files"], limits["files"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not seccomp.install():
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = 512 if soft == resource.RLIM_INFINITY else min(512, soft)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))


class _Session:
    """One proxy in this process."""

    def __init__(
        self,
        setup: Mapping[str, Any],
        watch: Watch,
        snapshot: Snapshot,
        violated: Callable[[str], None],
        tell: Tell,
        violations: list[str],
    ):
        self.violations = violations
        self.setup, self.watch, self.snapshot = setup, watch, snapshot
        self.violated, self.tell = violated, tell
        self.entry: ProxyEntry | None = None
        self.path = ""

    def load(self, path: str) -> bool:
        """Import the file and tell which proxies it registers, or why it cannot be imported."""
        self.path = path
        try:
            self.watch.begin()
            try:
                name = "gapbench_submitted_proxy"
                specification = importlib.util.spec_from_file_location(name, path)
                assert specification is not None
                assert specification.loader is not None
                module = importlib.util.module_from_spec(specification)
                sys.modules[name] = module
                specification.loader.exec_module(module)
            finally:
                self.watch.end()
        except BaseException as error:
            self.tell({"kind": "unloadable", "reason": _reason(error, path)})
            return False
        entries = list(registry._ENTRIES.values())
        found = [entry for entry in entries if entry.origin.rpartition(":")[0] == path]
        for change in self.snapshot.changes():
            self.violated(change)
        self.tell({"kind": "loaded", "proxies": [_described(entry) for entry in found]})
        chosen = [entry for entry in found if self.setup["proxy"] in (None, entry.name)]
        self.entry = chosen[0] if len(chosen) == 1 else None
        return True

    def measure(self, job: Mapping[str, Any], blob: bytearray) -> None:
        """Measure one network and tell the result."""
        assert self.entry is not None
        self.violations.clear()
        given = torch.load(io.BytesIO(blob), weights_only=False)
        blob.clear()
        context = make_context(
            given["model"],
            given["inputs"],
            given["targets"],
            all_inputs=given["all_inputs"],
            all_targets=given["all_targets"],
            initial=given["initial"],
            loss=job["loss"],
            history=given["history"],
            checkpoints=given["checkpoints"],
            sibling=given["sibling"],
            unlabelled=given["unlabelled"],
        )
        data = _data_of(context)
        before = {name: tensor.clone() for name, tensor in data.items()}
        changes: list[str] = []
        failures: list[str] = []
        function = self._watched(self.entry.function, changes, failures)
        entry = dataclasses.replace(self.entry, function=function)
        options = {**entry.options, **self.setup["options"]}
        surroundings = Surroundings(_networks_of(context))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.tell({"kind": "begun", "job": job["job"]})
        try:
            found = measure_in(context, entry, options, job["seed"])
            status, value, error = found.status, found.value, found.standard_error
            reason, details, memory = found.reason, dict(found.details), found.peak_memory
            if failures and status == "failed" and reason.startswith("_Settled"):
                reason = failures[0]
        except BaseException as caught:
            reason = failures[0] if failures else _reason(caught, self.path)
            status, value, error, details, memory = "failed", None, None, {}, None
        self.watch.end()
        changes += [f"it changed the {n}" for n, t in data.items() if not torch.equal(t, before[n])]
        changes += surroundings.changes()
        for change in self.snapshot.changes():
            self.violated(change)
        if changes:
            status, value, error = "failed", None, None
            reason = "; ".join([*([reason] if reason else []), *changes])
        if memory is None:
            memory = 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak)
        self.tell(
            {
                "kind": "result",
                "job": job["job"],
                "token": job["token"],
                "status": status,
                "value": value,
                "standard_error": error,
                "reason": clean(reason),
                "details": details if status == "ok" else {},
                "peak_memory": memory,
            }
        )

    def _watched(
        self, function: Callable[..., object], changes: list[str], failures: list[str]
    ) -> Callable[..., object]:
        """The proxy's function, watched, perhaps under another global random state.

        Notes a use of that state in `changes` and, in `failures`, an error with the line that raised it. What
        it returns or raises is made plain while it is still watched: the methods of the proxy's own classes
        are its code too.

        Returns:
            A function of the same signature.
        """

        def call(context: object, **options: object) -> object:
            states = guard._random_states()
            if self.setup["disturb"]:
                disturb_random_state()
            inside = guard._random_states()
            self.watch.begin()
            try:
                return _settled(function(context, **options))
            except NotApplicable as reason:
                text = _text(reason)
                raise NotApplicable(text) from None
            except BaseException as error:
                if isinstance(error, SystemExit):
                    self.violated("it tried to end the process (SystemExit)")
                if isinstance(error, MemoryError) or "allocate memory" in _text(error):
                    limit = self.setup["limits"]["memory"] / 2**30
                    memory = f"it needed more than {limit:.3g} GiB of memory"
                    failures.append(f"MemoryError: {memory}{_line(error, self.path)}")
                else:
                    failures.append(_reason(error, self.path))
                raise _Settled from None
            finally:
                self.watch.end()
                if not guard._same_states(guard._random_states(), inside):
                    changes.append("it drew from the global random state instead of context.generator")
                guard._restore(states)

        return call


class _Settled(Exception):
    """Stands for an error whose text was made while the proxy was watched."""


def _data_of(context: Context) -> dict[str, torch.Tensor]:
    """What a measurement is given and must not change, by name."""
    data = {
        name: tensor
        for name in ("inputs", "targets", "all_inputs", "all_targets", "unlabelled")
        if (tensor := getattr(context, name)) is not None
    }
    for role, other in _networks_of(context).items():
        if role and other is not None:
            data |= {f"{role}{k}": v for k, v in other.state_dict().items()}
    return data


def _networks_of(context: Context) -> dict[str, nn.Module | None]:
    """The networks of a context by what its messages call them, the trained one by no name."""
    found = {"": context.model, INITIAL: context.initial, SIBLING: context.sibling}
    return found | {f"checkpoint {epoch}'s ": network for epoch, network in context.checkpoints or ()}


def _settled(result: object) -> object:
    """The result with plain numbers and plain details; what is no number stays what it is."""
    if isinstance(result, Estimate):
        details = result.details
        details = _plain_details(details) if isinstance(details, Mapping) else details
        return Estimate(_plain_number(result.value), _plain_number(result.standard_error), details)
    return _plain_number(result)


def _plain_number(value: object) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        value = value.item()
    if isinstance(value, Real) and type(value) not in PLAIN:
        return float(value)
    return value


def _text(error: BaseException) -> str:
    try:
        return clean(str(error))
    except Exception as another:
        return f"(its message cannot be shown: {type(another).__name__})"


def _described(entry: ProxyEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "version": entry.version,
        "higher_means": entry.higher_means,
        "reference": clean(entry.reference, 300) if entry.reference else "",
        "summary": clean(entry.summary),
        "options": {
            name: value
            for name, value in entry.options.items()
            if value is None or isinstance(value, bool | int | float | str)
        },
    }


def _plain_details(details: Mapping[str, object]) -> dict[str, object]:
    """Details that are plain JSON and short; what is not is left out."""
    kept: dict[str, object] = {}
    for name, value in list(details.items())[:100]:
        try:
            text = json.dumps({str(name)[:100]: value}, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            continue
        if len(text) + len(json.dumps(kept)) <= LONGEST_DETAILS:
            kept |= json.loads(text)
    return kept


def _reason(error: BaseException, path: str) -> str:
    """The error in one line, with the line of the proxy's file that raised it."""
    where = _line(error, path)
    if isinstance(error, SyntaxError) and error.lineno:
        where = f" (line {error.lineno})"
    if isinstance(error, NotApplicable):
        return clean(f"NotApplicable was raised while the file was imported: {_text(error)}{where}")
    return clean(f"{type(error).__name__}: {_text(error)}{where}")


def _line(error: BaseException, path: str) -> str:
    where = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            where = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    return where
