"""The `livebox` command. Each command is one module of `livebox.commands`, imported only when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil

import click

from livebox import commands


class Commands(click.Group):
    """Finds its commands: a module `livebox.commands.<name>` has the click command `command`.

    One whose name is a word of the language has an underscore behind it.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None when there is none."""
        module = _modules().get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(f"livebox.commands.{module}").command
        return command


def _modules() -> dict[str, str]:
    """The modules of the commands by the name of the command."""
    names = (module.name for module in pkgutil.iter_modules(commands.__path__))
    return {name.rstrip("_"): name for name in names if not name.startswith("_")}


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="livebox")
def main() -> None:
    """Livebox keeps an AI agent's run as an object of its own.

    Configuration comes from the environment: see `livebox config`.
    """


if __name__ == "__main__":
    main()
