"""Arguments, groups and output that the commands of `rlx` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
"""For commands that pass all words on to Hydra, `-m` among them."""
MIXED = {"ignore_unknown_options": True}
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C stopped."""


RUN, BEFORE, AFTER = "Run", "Before a run", "During and after"
PANELS = (RUN, BEFORE, AFTER)
"""Purposes of commands, in the order in which `rlx` lists them."""


class Overview(typer.core.TyperGroup):
    """Commands by what they are for, each with the first paragraph of its own help."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Typer ends what Ctrl-C stopped, wherever it was, with 130 and not a word."""
        code = super().main(*args, **kwargs)
        if code == INTERRUPTED:
            raise typer.Abort
        return code

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            first, _, _ = (command.help or "").partition("\n\n")
            panels.setdefault(getattr(command, "rich_help_panel", None) or AFTER, []).append((name, first))
        for title in sorted(panels, key=PANELS.index):
            with formatter.section(title):
                formatter.write_dl([(f"{name:<11}", text) for name, text in panels[title]])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from rlx.commands.guide import EXAMPLES

        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in EXAMPLES.splitlines()))


class WithDefault(typer.core.TyperGroup):
    """A command with subcommands, the first of which takes all words that name no subcommand."""

    @property
    def default(self) -> str:
        return next(iter(self.commands))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if is_named else [self.default, *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Leave the default's name out of its usage line."""
        name, command, rest = super().resolve_command(ctx, args)
        return "" if name == self.default else name, command, rest


def complete_words(ctx: typer.Context, args: list[str], incomplete: str) -> list[str]:
    """bash splits at `=`, so a word may come in three pieces of which it wants the last."""
    from rlx.settings.compose import complete

    words = " ".join([*(ctx.params.get("words") or ()), *args]).replace(" = ", "=").split()
    head = ""
    if words and words[-1] == "=" and len(words) > 1:
        head = words[-2] + "="
    elif words and "=" not in words[-1] and not words[-1].startswith("-"):
        head = words[-1] + "="
    completions = complete([word for word in words if "=" in word[1:]], head + incomplete)
    return [word.removeprefix(head) for word in completions]


Words = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="As for `rlx train`.", autocompletion=complete_words)
]
ConfigDir = Annotated[Path | None, typer.Option("--config-dir", "-cd", help="A folder of options, searched first.")]
AsJson = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Columns = Annotated[
    str, typer.Option("--columns", help="Such as pass@1,episode/tokens,reward/mean: any figure or metric.")
]
Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run's folder.")]
Tokens = Annotated[
    float | None,
    typer.Option("--tokens", min=1, help="Tokens sampled in an episode, on average; of several agents, by each."),
]
Turns = Annotated[float | None, typer.Option("--turns", min=1, help="Turns of an episode, on average.")]
Prompt = Annotated[float | None, typer.Option("--prompt", min=1, help="Tokens before the first turn.")]
Observed = Annotated[
    float | None, typer.Option("--observed", min=0, help="Tokens of all answers of tools or environment.")
]


def split_run(words: list[str] | None) -> tuple[Path | None, list[str]]:
    """Separate the last run=DIR from the other words."""
    named = [word.removeprefix("run=") for word in words or [] if word.startswith("run=")]
    rest = [word for word in words or [] if not word.startswith("run=")]
    return (Path(named[-1]) if named else None), rest


def show(text: str) -> None:
    """Print text that may come from anywhere: control characters are replaced, markup is not read."""
    from rlx.base.console import clean

    print(clean(text))
