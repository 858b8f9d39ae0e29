"""`python -m livebox`: the same as the `livebox` command."""

from livebox.cli import main

main(prog_name="livebox")
