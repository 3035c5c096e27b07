"""How the values of a computation are used further on."""

from __future__ import annotations

from gapbench.computation.tracing import Node
from gapbench.symmetry.interpreter import Interpreter


def only_user(run: Interpreter, start: int, end: Node) -> bool:
    """Whether the value of node `start` goes to `end` only, through views."""
    index = start
    while index != end.index:
        users = set(run.consumers.get(index, []))
        if len(users) != 1:
            return False
        index = users.pop()
        if index != end.index and run.trace.nodes[index].op not in ("view", "_unsafe_view", "reshape"):
            return False
    return True
