"""Classification problems with documented, versioned protocols and fingerprinted data."""

from gapbench_base.errors import NotDefined, TaskError
from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.registry import (
    broken_plugins,
    canonical_option,
    list_tasks,
    load_task,
    task_entry,
    task_options,
)
from gapbench_tasks.task import Split, Task, Unlabelled

__all__ = [
    "NotDefined",
    "Split",
    "Task",
    "TaskEntry",
    "TaskError",
    "Unlabelled",
    "broken_plugins",
    "canonical_option",
    "list_tasks",
    "load_task",
    "task_entry",
    "task_options",
]
