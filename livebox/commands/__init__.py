"""One module per command of `livebox`; each has a click command called `command`. Names with an underscore are none."""
