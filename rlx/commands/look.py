"""The commands that look and start no run: options, keys, tasks, episodes, runs, and what this machine has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlx.commands.parts import (
    AFTER,
    BEFORE,
    MIXED,
    ConfigDir,
    WithDefault,
    Words,
    complete_words,
    show,
)
from rlx.commands.retrieval import build_index

commands = typer.Typer()
data_commands = typer.Typer(cls=WithDefault, rich_markup_mode=None)
commands.add_typer(
    data_commands, name="data", rich_help_panel=BEFORE, help="Tasks and traces; indexes of pages; the cache."
)


@commands.command(name="list", rich_help_panel=BEFORE)
def list_group(
    group: Annotated[
        str, typer.Argument(help="env, algo, model, …; without it, all groups.", autocompletion=lambda: groups())
    ] = "",
    config_dir: ConfigDir = None,
) -> None:
    """The options of a group, a line each; alone, the groups."""
    from rlx.commands.guide import describe_group, describe_groups

    show(describe_group(group, config_dir) if group else describe_groups(config_dir))


@commands.command(context_settings=MIXED, rich_help_panel=BEFORE)
def keys(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="And KEY=VALUE.", autocompletion=complete_words)
    ] = None,
    config_dir: ConfigDir = None,
) -> None:
    """Show the meaning of keys, their types, values and places.

    `rlx keys algo.loss.kl` is of one key, `rlx keys algo` of all of a part, `rlx keys` of everything; with GROUP=OPTION
    and KEY=VALUE of the run that these choose, as in `rlx keys algo=grpo algo.optimizer`.
    """
    from rlx.commands.keys import describe_keys

    show(describe_keys(words or [], config_dir))


def groups() -> list[str]:
    from rlx.commands.guide import listed_groups

    return listed_groups()


@data_commands.command(name="tasks", context_settings=MIXED)
def data(
    words: Words = None,
    num: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 3,
    split: Annotated[Literal["train", "test"], typer.Option(help="Which tasks.")] = "train",
    out: Annotated[Path | None, typer.Option(help="Write JSON lines there instead of showing them.")] = None,
) -> None:
    """Tasks and an expert's traces of them, shown or written. Of several agents, each has a trace of its own.

    `rlx data env=countdown protocol=tags --num 3`; words are those of `rlx train`. `rlx data build-index --help`
    describes indexes of pages for a search.
    """
    from rlx.base.console import format_count
    from rlx.commands.data import build_rows, show_row, write_rows
    from rlx.settings.compose import build_part, compose

    tree = compose(words or [])
    env, protocol = build_part(tree, "env"), build_part(tree, "protocol")
    rows = build_rows(env, protocol, split, tree["seed"], num)
    if out is not None:
        show(f"{format_count(write_rows(rows, out), 'row')} in {out}")
        return
    for row in rows:
        show(show_row(row))


data_commands.command(name="build-index")(build_index)


@commands.command(context_settings=MIXED, rich_help_panel=BEFORE)
def play(
    words: Words = None,
    task: Annotated[int, typer.Option(min=1, max=100_000, help="Which task of the split, from 1.")] = 1,
    split: Annotated[Literal["train", "test"], typer.Option(help="Which tasks.")] = "train",
    expert: Annotated[bool, typer.Option("--expert", help="Watch the environment's expert.")] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Texts cut into their tokens, with | between.")] = False,
) -> None:
    """An episode by hand, seeing what the model would see.

    `rlx play env=game/guess_the_number protocol=boxed`; words are those of `rlx train`. A turn ends with an empty line,
    or with what ends a model's; the end of the input, or Ctrl-C, ends the episode. An error in it is exit status 1.
    """
    from rlx.commands.play import Play, expert_turns, find_task, player, typed_turns
    from rlx.settings.compose import build_part, compose

    tree = compose(words or [])
    env = build_part(tree, "env")
    chosen = find_task(env, split, tree["seed"], task)
    world, sampling = player(tree, env, chosen)
    turns = expert_turns(env, world, chosen, tree["seed"]) if expert else typed_turns(world.speech.dialect.stops)
    played = Play(world=world, task=chosen, sampling=sampling, tokens=tokens, by_expert=expert)
    played.run(turns, show)
    if played.status == "error":
        raise typer.Exit(1)


@commands.command(rich_help_panel=BEFORE)
def new(
    kind: Annotated[str, typer.Argument(help="env or algo.")],
    name: Annotated[str, typer.Argument(help="Of its option and its files, such as guess_it.")],
    folder: Annotated[Path, typer.Argument(file_okay=False, help="Where to write.")] = Path(),
) -> None:
    """Write an environment or algorithm of your own to begin with.

    The module, its yaml and its test work unchanged; no file is overwritten.
    """
    from rlx.commands.new import describe_new, write_new

    show(describe_new(kind, name, folder, write_new(kind, name, folder)))


@commands.command(name="show", rich_help_panel=AFTER)
def show_episode(
    folder: Annotated[Path, typer.Argument(exists=True, help="A run's folder, or a file of episodes.")],
    step: Annotated[
        str, typer.Argument(help="A training step (12), eval or start; the last there is if not said.")
    ] = "",
    task: Annotated[str | None, typer.Option(help="Only episodes of this task.")] = None,
    sample: Annotated[int | None, typer.Option(help="Only this sample of each task.")] = None,
    solved: Annotated[bool | None, typer.Option("--solved/--failed", help="Only these.", show_default=False)] = None,
    reply: Annotated[
        str | None, typer.Option(help="Only episodes with a reply in which this metric is above 0 (only_action).")
    ] = None,
    index: Annotated[int, typer.Option(min=1, help="Which of them, from 1.")] = 1,
    best: Annotated[bool, typer.Option("--best", help="The one of the highest reward.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="The one of the lowest reward.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="A line for each of them.")] = False,
    line: Annotated[int | None, typer.Option(min=1, help="This line of the file, at once.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Token by token, with what was learned.")] = False,
) -> None:
    """An episode: what the agent saw and did, turn by turn.

    `rlx show DIR` is the first of the last evaluation, `rlx show DIR 12 --failed` the first of step 12 that failed.
    With several agents, --best, --worst, --solved and --failed go by the first agent that the run trains: `agents` in
    summary.json; before the run has ended, the first to act that is not in `policies`.
    """
    from rlx.commands.find import Wanted
    from rlx.commands.show import show_episodes
    from rlx.settings.check import ConfigError

    if best + worst + listed + (index > 1) + (line is not None) > 1:
        raise ConfigError("--best, --worst, --list, --index N and --line N each say which: give one of them")
    by = "best" if best else "worst" if worst else ""
    wanted = Wanted(task=task, sample=sample, success=solved, reply=reply)
    for text in show_episodes(folder, step, wanted, index=index, by=by, listed=listed, line=line, tokens=tokens):
        show(text)


@commands.command(rich_help_panel=AFTER)
def view(
    places: Annotated[
        list[str] | None, typer.Argument(metavar="DIR", help="Of runs, or of one; outputs if not said.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    export: Annotated[Path | None, typer.Option(dir_okay=False, help="Write chosen episodes into this page.")] = None,
    task: Annotated[str | None, typer.Option(help="With --export, only episodes of this task.")] = None,
    sample: Annotated[int | None, typer.Option(help="Only this sample of each task.")] = None,
    solved: Annotated[bool | None, typer.Option("--solved/--failed", help="Only these.", show_default=False)] = None,
    reply: Annotated[str | None, typer.Option(help="Only episodes with this metric of a reply above 0.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The one of the highest reward.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="The one of the lowest reward.")] = False,
    line: Annotated[int | None, typer.Option(min=1, help="This line of the file.")] = None,
) -> None:
    """Show runs on a local web page: curves, episodes, tokens and trees.

    `rlx view` shows the runs below outputs; only this machine can open the address, and only with the secret in it.
    `rlx view DIR --best` begins at the best episode of the last evaluation; STEP after DIR takes another file.
    `rlx view DIR 12 --failed --export FILE.html` writes episodes as one page, chosen as by `rlx show`.
    """
    from rlx.commands.find import Wanted
    from rlx.commands.view import (
        export_episodes,
        find_folders,
        place_of_episode,
        refuse_filters,
        serve_view,
        split_places,
    )

    by = "best" if best else "worst" if worst else ""
    wanted = Wanted(task=task, sample=sample, success=solved, reply=reply)
    if export is None and not by and line is None:
        refuse_filters(wanted)
        serve_view(find_folders(places or ["outputs"]), port)
        return
    folder, step = split_places(places or [])
    if export is None:
        serve_view([folder], port, place_of_episode(folder, step, wanted, by=by, line=line))
        return
    show(export_episodes(folder, step, wanted, by=by, line=line, out=export))


@data_commands.command()
def cache(
    action: Annotated[Literal["list", "clear"], typer.Argument(help="Show it, or remove it.")] = "list",
    days: Annotated[float, typer.Option("--older-than", min=0, help="Days since it was last written.")] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
) -> None:
    """Warm starts and evaluations kept for later runs: list, clear.

    They lie in the folder that RLX_CACHE names, or in ~/.cache/rlx. What is cleared is made again when it is needed;
    do not clear what a run at work began from.
    """
    from rlx.commands.cache import cache_table, clear, megabytes, older_than, read_cache
    from rlx.commands.output import show_tables
    from rlx.runs.cache import cache_folder

    entries = older_than(read_cache(), days)
    show_tables([cache_table(entries, cache_folder())])
    if action == "list" or not entries:
        return
    if not yes:
        typer.confirm("Remove them?", abort=True)
    removed, messages = clear(entries)
    show("\n".join([*messages, f"removed {len(removed)}, {megabytes(sum(entry.num_bytes for entry in removed))}"]))
