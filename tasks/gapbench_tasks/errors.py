"""What a user can do wrong with a task, as one exception type."""


class TaskError(ValueError):
    """A task cannot be loaded as asked; the message says what is wrong, where, and what to do."""


class NotDefined(TaskError):
    """A quantity that is not defined for this task (e.g. the maximum margin under label noise)."""
