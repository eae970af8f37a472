"""`python -m specswitch`: the same as the command `specswitch`."""

from specswitch.cli import main

main(prog_name="specswitch")
