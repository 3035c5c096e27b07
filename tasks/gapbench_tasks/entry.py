"""What is known of a task before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskEntry:
    """A task that can be loaded.

    Attributes:
        name: lower-case letters, digits and `_`.
        loader: `module:function`, imported only when needed. Called with the data folder; its keyword-only
            parameters are the task's options.
        summary: one line.
        data: the data set that it reads from the data folder, if any.
        classes: how many there are, or the option that says so; None where it is not said.
    """

    name: str
    loader: str
    summary: str
    data: str | None = None
    classes: int | str | None = None
