"""`livebox config`: what is in effect, and where it comes from."""

from __future__ import annotations

import click

from livebox.commands._terminal import configuration, table
from livebox.key import Key, Value
from livebox.keys import KEYS


@click.command("config", help="Print the effective configuration. docs/configuration.md says what each key is for.")
@click.argument("keys", nargs=-1)
@click.option("--changed", is_flag=True, help="Only keys that differ from their default.")
def command(keys: tuple[str, ...], changed: bool) -> None:
    """Print keys (all, or those named) with their values, units and variables; secrets are masked."""
    shown = configuration().shown()
    for name in keys:
        if name not in KEYS:
            raise click.BadParameter(f"there is no key {name}", param_hint="keys")
    table(
        ("key", "value", "unit", "variable"),
        [
            (
                key.name,
                _text(key, shown[key.name]),
                "" if key.unit in ("text", "path", "flag") else key.unit,
                key.variable,
            )
            for key in KEYS.values()
            if (not keys or key.name in keys) and not (changed and shown[key.name] == key.default)
        ],
    )


def _text(key: Key, value: Value) -> str:
    return str(int(value)) if key.unit == "flag" else str(value)
