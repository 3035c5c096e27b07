"""The tasks: each module holds a loader and its `TaskEntry` and is found by its file alone."""
