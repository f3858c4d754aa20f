"""The command line. Heavy imports are inside the commands, so that `rlx --help` answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rlx.base.limits import MANY
from rlx.commands import parts
from rlx.commands.follow import follow_commands
from rlx.commands.jobs import check_evaluate, check_train, evaluate_job, stored_run, train_job
from rlx.commands.look import commands
from rlx.commands.parts import (
    AFTER,
    BEFORE,
    MIXED,
    PASS_ON,
    RUN,
    ConfigDir,
    Folder,
    Overview,
    WithDefault,
    Words,
    show,
)
from rlx.commands.retrieval import serve_retriever
from rlx.lab.analyze import analyze

app = typer.Typer(
    name="rlx",
    cls=Overview,
    help="Train and evaluate language-model agents: a run is a choice of env x algo x model x hardware.",
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(commands)
app.add_typer(follow_commands)
serving = typer.Typer(cls=WithDefault, rich_markup_mode=None)
app.add_typer(serving, name="serve", rich_help_panel=RUN, help="A rollout server, or a search server.")
app.add_typer(analyze, name="analyze", rich_help_panel=AFTER)


@app.callback(invoke_without_command=True)
def overview(
    ctx: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False
) -> None:
    """Train and evaluate language-model agents: a run is a choice of env x algo x model x hardware."""
    if version:
        from rlx import __version__

        print(f"rlx {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@app.command(context_settings=PASS_ON, add_help_option=False, rich_help_panel=RUN)
def train(words: Words = None) -> None:
    """Train and evaluate a run, or a sweep of them."""
    from rlx.commands.guide import asks_for_help, train_help
    from rlx.settings.compose import launch

    if asks_for_help(words or []):
        show(train_help())
        return
    launch(words or [], train_job, check=check_train)


@app.command(context_settings=MIXED, rich_help_panel=RUN)
def resume(folder: Folder, words: Words = None) -> None:
    """Go on with a run that was stopped, from its newest checkpoint.

    `rlx resume DIR steps=100` also changes what may change: the number of steps, hardware, tracking, checkpoints and
    evaluation. A run with options of your own needs its --config-dir again. A run of several processes is started
    as by `rlx launch`.
    """
    import shlex

    from rlx.commands.resume import needs_launch, resume_command

    command = resume_command(folder, words or [])
    launches = needs_launch(command)
    show(f"rlx {'launch' if launches else 'train'} {shlex.join(command)}")
    (launch_run if launches else train)(command)


@app.command(name="launch", context_settings=MIXED, rich_help_panel=RUN)
def launch_run(words: Words = None) -> None:
    """Train in many processes: a SLURM allocation's, or one a GPU."""
    from rlx.cluster.start import default_folder, start
    from rlx.settings.compose import build_run, compose, run_folder

    words = words or []
    run = build_run(compose(words), Path())
    check_train(run)
    named = any(word.startswith("hydra.run.dir=") for word in words)
    folder = Path(run_folder(words)) if named else default_folder(run_folder(words), run.seed)
    raise typer.Exit(start(run.hardware, folder, words))


@app.command(name="eval", context_settings=PASS_ON, add_help_option=False, rich_help_panel=RUN)
def evaluate(words: Words = None) -> None:
    """Evaluate a run with other settings, or a model as it stands."""
    from rlx.commands.guide import asks_for_help, eval_help
    from rlx.settings.compose import launch
    from rlx.settings.words import drop_training

    if asks_for_help(words or []):
        show(eval_help())
        return
    folder, rest = parts.split_run(words)
    if folder is None:
        launch([*drop_training(rest), *rest], evaluate_job, check=check_evaluate)
        return
    run = stored_run(folder, rest, words or [])
    check_evaluate(run)
    from rlx.run.evaluation_run import evaluate_run

    evaluate_run(run)


@app.command(context_settings=MIXED, rich_help_panel=RUN)
def reproduce(
    name: Annotated[str, typer.Argument(help="Such as tool_rloo, or FILE.yaml of your own.")],
    words: Words = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=MANY, help="How many, if not those of its file.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=MANY, help="Runs at a time.")] = 2,
    folder: Annotated[Path | None, typer.Option(file_okay=False, help="outputs/reproduce-NAME if not said.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what it takes, and start nothing.")] = False,
) -> None:
    """A paper's result: all its runs, and the report.

    The same command goes on where it was cut off. Words go to every run: hydra/launcher=slurm makes jobs of them. Exit
    code 1 if a figure is not where its file expects it.
    """
    from rlx.lab.reproduce.command import reproduce

    if not reproduce(name, words or [], seeds=seeds, jobs=jobs, folder=folder, plan=plan):
        raise typer.Exit(1)


@serving.command(name="rollouts", context_settings=MIXED)
def serve(
    words: Words = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    child: Annotated[bool, typer.Option(hidden=True, help="End with standard input.")] = False,
) -> None:
    """A rollout server, for runs on other machines.

    `rlx serve model=nano hardware=cpu` serves runs that are started with RLX_SERVERS=HOST:PORT. Both sides need the
    same RLX_SERVER_TOKEN. `rlx serve retriever --help` describes a search server.
    """
    import signal

    if child:  # signals are for the run, which says by closing the pipe when its servers may go
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(signum, signal.SIG_IGN)
    from rlx.hardware.profile import set_threads
    from rlx.settings.compose import build_part, compose
    from rlx.settings.saved import load_tree

    named = [Path(word.removeprefix("run=")) for word in words or [] if word.startswith("run=")]
    rest = [word for word in words or [] if not word.startswith("run=")]
    parts = ("model", "hardware")
    tree = load_tree(named[-1], rest, parts=parts) if named else compose(rest)
    set_threads(tree["hardware"].get("num_threads", 1))
    model, hardware = (build_part(tree, key) for key in parts)
    from rlx.run.serve import serve as serve_engine

    serve_engine(model, hardware, host=host, port=port, child=child)


serving.command(name="retriever")(serve_retriever)


@app.command(context_settings=MIXED, rich_help_panel=BEFORE)
def plan(
    words: Words = None,
    tokens: parts.Tokens = None,
    turns: parts.Turns = None,
    prompt: parts.Prompt = None,
    observed: parts.Observed = None,
) -> None:
    """Show a run before it starts: whether it fits, its time, settings, memory and disk.

    Loads and starts nothing; exit code 2 if the run cannot fit. Words are those of `rlx train`. Without --tokens the
    time stands for three lengths of episodes, unless demonstrations that the policy copies tell them, or run=DIR does:
    a run that has taken ten steps.
    """
    from rlx.commands.plan import plan_run
    from rlx.plan.lengths import LengthHints

    plan_run(words, LengthHints(tokens=tokens, turns=turns, prompt=prompt, observed=observed))


@app.command(context_settings=MIXED, rich_help_panel=BEFORE)
def fetch(words: Words = None) -> None:
    """Fetch a run's model and data sets, as on a login node whose compute nodes have no internet.

    Words are those of `rlx train`. Files go into the hub's cache (HF_HOME), where the run finds them.
    """
    from rlx.run.inputs import fetch_inputs, list_inputs
    from rlx.settings.compose import build_run, compose

    run = build_run(compose(words or []), Path())
    fetch_inputs(run)
    show("\n".join(list_inputs(run)))


@app.command(name="check", context_settings=MIXED, rich_help_panel=BEFORE)
def check_machine(
    words: Words = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="After which it is ended.")] = 10.0,
    keep: Annotated[Path | None, typer.Option(help="A new folder for what it writes, which stays.")] = None,
    inside: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Show what this machine can run; with words, try such a run.

    `rlx check` alone shows what is installed, what is missing and how to get it. `rlx check hardware=gpu1
    model=qwen2_5_0_5b` plays and trains for minutes; words are those of `rlx train`. Exit code 1 if a check failed.
    """
    if not words and not inside:
        from rlx.commands.machine import examine

        show(examine())
        return
    from rlx.cluster.check.selftest import check, take_part

    if inside:
        raise typer.Exit(take_part(inside, words or []))
    text, is_good = check(words or [], check_train, minutes=minutes, keep_folder=keep)
    show(text)
    raise typer.Exit(0 if is_good else 1)


@app.command(context_settings=MIXED, rich_help_panel=AFTER)
def replay(folder: Folder, words: Words = None, config_dir: ConfigDir = None) -> None:
    """Replay stored episodes, checking every reward and observation.

    Words name code that the run folder may not choose by itself: `rlx replay DIR env.python=/opt/gem/bin/python`.
    """
    from rlx.evaluation.replay import replay as replay_folder
    from rlx.run.stored_speech import stored_speech
    from rlx.runs.store import stored_files
    from rlx.settings.compose import build_part
    from rlx.settings.saved import load_tree

    tree = load_tree(folder, words or [], config_dir=config_dir, tracks=False)
    stored_files(folder)  # for its error
    env, dialect, model = (build_part(tree, key) for key in ("env", "protocol", "model"))
    report = replay_folder(folder, env, speech=stored_speech(folder, env, dialect, model))
    show(str(report))
    if not report.ok:
        raise typer.Exit(1)


@app.command(rich_help_panel=AFTER)
def report(
    runs: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Of runs, or above them.")],
    against: Annotated[str, typer.Option(help="Published values: a reproduction or a paper preset, by name.")] = "",
    folder: Annotated[
        Path | None, typer.Option(file_okay=False, help="RUN/report of one run, else report-NAME, if not said.")
    ] = None,
) -> None:
    """One page of everything that runs left behind.

    report.html needs no other file and no network; report.md has its pictures beside it. Runs that differ in their
    seeds alone share a row. The same runs give the same bytes.
    """
    from rlx.commands.report import write_runs
    from rlx.lab.reproduce.against import find_paper

    show(write_runs(runs, find_paper(against) if against else None, folder))


def main() -> None:
    """Run a command. A mistake is one line on stderr: exit code 2 where the words were wrong."""
    from typer.exceptions import Abort, Exit, TyperException

    from rlx.commands.last_words import fail, one_line_of, open_streams, print_no_more

    open_streams()
    try:
        code = app(standalone_mode=False, prog_name="rlx")
        sys.stdout.flush()
    except Exit as done:
        code = done.exit_code
    except TyperException as error:
        code = fail(error.format_message(), error.exit_code)
    except Abort:
        code = fail("interrupted", 130)
    except (BrokenPipeError, SystemExit) as end:
        if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
            raise
        print_no_more()  # the reader of a pipe (head, less) has seen enough
        code = 0
    except Exception as error:
        message = one_line_of(error)
        if message is None:
            raise
        code = fail(message, getattr(error, "exit_code", 1))
    sys.exit(code if isinstance(code, int) else 0)
