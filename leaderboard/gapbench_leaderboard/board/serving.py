"""Shows a board to the browsers of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gapbench_leaderboard.scores import TableError

HOST = "127.0.0.1"


class _Quiet(SimpleHTTPRequestHandler):
    """Files of one folder; no lines on the terminal."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def server(board: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of the board's files on the loopback address, which no other machine can reach.

    Returns:
        A server that does not serve yet.

    Raises:
        TableError: if there is no page, or the port is taken.
    """
    if not (board / "index.html").is_file():
        raise TableError(f"{board} holds no board (no index.html); nothing can be shown")
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Quiet, directory=str(board)))
    except OSError as error:
        raise TableError(f"--port {port} cannot be used: {error.strerror}") from error


def serve(board: Path, port: int, say: Callable[[str], object]) -> None:
    """Show the board until Ctrl-C; says the address first."""
    with server(board, port) as shown:
        say(f"\nThe board is at http://{HOST}:{shown.server_address[1]}/ (Ctrl-C ends)")
        try:
            shown.serve_forever()
        except KeyboardInterrupt:
            say("")
