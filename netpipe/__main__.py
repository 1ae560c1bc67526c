"""`python -m netpipe` is the `netpipe` command."""

from netpipe.cli import main

main()
