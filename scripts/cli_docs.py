"""Write docs/cli.md from the commands themselves.

python scripts/cli_docs.py            # writes docs/cli.md
python scripts/cli_docs.py --check    # exit code 1 if it is not up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from gapbench.cli import COMMANDS, cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = """# The command line

Written by `scripts/cli_docs.py` from the commands themselves. Exit codes: 0 all well, 1 a network or measurement
failed, or the disk is full, 2 wrong usage or unusable input. Every command takes `-h`.

## Completion

The shell completes commands, options, suites, proxies, runs and entries. Once, for bash, zsh or fish:

```
echo 'eval "$(_GAPBENCH_COMPLETE=bash_source gapbench)"' >> ~/.bashrc
echo 'eval "$(_GAPBENCH_COMPLETE=zsh_source gapbench)"' >> ~/.zshrc
_GAPBENCH_COMPLETE=fish_source gapbench > ~/.config/fish/completions/gapbench.fish
```
"""


def page() -> str:
    """The text of the page."""
    context = click.Context(cli, info_name="gapbench")
    lines = [HEAD]
    for name, summary in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        lines += [f"## {name}", "", summary[0].upper() + summary[1:] + ".", ""]
        lines += [f"```\n{usage(name, command)}\n```", ""]
        lines += [paragraph(text) for text in (command.help or "").split("\n\n")]
        rows = [row for parameter in command.params if (row := option_row(parameter))]
        if rows:
            lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def usage(name: str, command: click.Command) -> str:
    """`gapbench NAME [OPTIONS] ARGUMENT`."""
    own = click.Context(command, info_name=name, parent=click.Context(cli, info_name="gapbench"))
    return " ".join(["gapbench", name, *command.collect_usage_pieces(own)])


def paragraph(text: str) -> str:
    """A paragraph of the help, lines joined; one that begins with a mark for fixed lines stays as it is."""
    if text.lstrip().startswith("\b"):
        body = "\n".join(line.strip() for line in text.replace("\b", "").strip().splitlines())
        return f"```\n{body}\n```\n"
    return escaped(" ".join(text.split())) + "\n"


def option_row(parameter: click.Parameter) -> str:
    """One row of the table; empty for arguments, which the help speaks of."""
    record = parameter.get_help_record(click.Context(cli)) if isinstance(parameter, click.Option) else None
    if record is None:
        return ""
    option, about = record
    shown = option.replace("|", "\\|")
    return f"| `{shown}` | {escaped(' '.join(about.split()))} |"


def escaped(text: str) -> str:
    """Without what Markdown would take for itself."""
    return re.sub(r"([|<>\[\]*_])", r"\\\1", text)


def main() -> None:
    """Write the page, or say whether it is up to date."""
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/cli.md is not up to date: python scripts/cli_docs.py")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
