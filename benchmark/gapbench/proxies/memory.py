"""Peak memory of a block of work, where it can be read."""

from __future__ import annotations

from pathlib import Path

import torch


class PeakMemory:
    """Rise of the peak over the level at construction, in bytes; None where the system does not tell."""

    def __init__(self, device: torch.device):
        self.device = device
        self.start: int | None = None
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.start = torch.cuda.memory_allocated(device)
        else:
            try:
                Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the present size
                self.start = _status("VmRSS")
            except OSError:
                self.start = None

    def rise(self) -> float | None:
        """By how many bytes the peak rose since the start; None where it cannot be read."""
        if self.start is None:
            return None
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device) - self.start)
        peak = _status("VmHWM")
        return None if peak is None else float(max(0, peak - self.start))


def _status(field: str) -> int | None:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None
