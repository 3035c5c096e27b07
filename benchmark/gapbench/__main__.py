"""`python -m gapbench` is the command line."""

from gapbench.cli import main

main()
