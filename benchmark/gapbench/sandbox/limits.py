"""What a proxy may use up. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from gapbench_base.errors import GapbenchError

MIB = 2**20
LATE = "it ran longer than"
"""How the reason begins where a limit in seconds ended a process."""


@dataclass(frozen=True)
class Limits:
    """Of one network's measurement.

    `seconds` for each network and `load_seconds` for importing the proxy's file: wall-clock time, without that
    in which the process waited for a processor that others had (where the system tells: Linux). `memory`
    (bytes) beyond what the network, its data and the libraries take, `output` (bytes) printed, `files` (bytes)
    written to the private temporary folder.
    """

    seconds: float = 60.0
    load_seconds: float = 30.0
    memory: int = 4096 * MIB
    output: int = MIB
    files: int = 64 * MIB

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise GapbenchError(f"The limit {name} = {value!r} must be positive.")

    def as_dict(self) -> dict[str, object]:
        """For the sandboxed process, as plain JSON."""
        return asdict(self)
