"""The command line. Heavy imports are inside the commands, so that `rlx --help` answers at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rlx.run import Run

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
"""For commands whose words go to Hydra as they are, `--help` and `-m` among them."""
MIXED = {"ignore_unknown_options": True}

app = typer.Typer(
    name="rlx",
    help="Train and evaluate language-model agents: a run is a choice of env x algo x model x hardware.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def complete_words(ctx: typer.Context, args: list[str], incomplete: str) -> list[str]:
    """Groups, options and keys. bash splits at `=`, so a word may come in three pieces of which it wants the last."""
    from rlx.config import complete

    line = " ".join([*(ctx.params.get("words") or ()), *args]).replace(" = ", "=")
    before = line.split()
    head = ""
    if before and before[-1] == "=" and len(before) > 1:
        head = before[-2] + "="
    elif before and "=" not in before[-1] and not before[-1].startswith("-"):
        head = before[-1] + "="
    found = complete([word for word in before if "=" in word[1:]], head + incomplete)
    return [word.removeprefix(head) for word in found]


Words = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", autocompletion=complete_words)]
Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run's folder.")]


@app.command(context_settings=PASS_ON, add_help_option=False)
def train(words: Words = None) -> None:
    """Train: `rlx train env=countdown algo=tool_rloo`; -m sweeps, --cfg job shows the configuration."""
    from rlx.config import launch

    launch(words or [], train_job, check=check_train)


def check_train(run: Run, here: bool = True) -> None:
    from rlx.fit import check_run

    check_run(run, here=here)


def train_job(run: Run) -> Any:
    check_train(run)
    from rlx.train import train as train_run

    return train_run(run)


@app.command(name="launch", context_settings=MIXED)
def launch_run(words: Words = None) -> None:
    """Train on the machines of this SLURM allocation, or all GPUs of this machine: `rlx train` in many processes."""
    from rlx.config import build_run, compose, run_folder
    from rlx.launch.start import default_folder, start

    words = words or []
    run = build_run(compose(words), Path())
    check_train(run)
    named = any(word.startswith("hydra.run.dir=") for word in words)
    folder = Path(run_folder(words)) if named else default_folder(run_folder(words))
    raise typer.Exit(start(run.hardware, folder, words))


@app.command(name="eval", context_settings=PASS_ON, add_help_option=False)
def evaluate(words: Words = None) -> None:
    """Evaluate a run or a model: `rlx eval run=DIR`, `rlx eval model.path=DIR`, with any further KEY=VALUE."""
    from rlx.config import build_run, launch, load_tree
    from rlx.hardware import set_threads

    named = [word for word in words or [] if word.startswith("run=")]
    rest = [word for word in words or [] if not word.startswith("run=")]
    if not named:
        launch(rest, evaluate_job, check=check_evaluate)
        return
    folder = Path(named[-1].removeprefix("run="))
    tree = load_tree(folder, rest)
    set_threads(tree["hardware"]["num_threads"])
    evaluate_job(build_run(tree, folder))


def check_evaluate(run: Run, here: bool = True) -> None:
    from rlx.fit import check_run

    check_run(run, here=here, trains=False)


def evaluate_job(run: Run) -> Any:
    check_evaluate(run)
    from rlx.judge import evaluate_run

    return evaluate_run(run)


@app.command(context_settings=MIXED)
def serve(
    words: Words = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    child: Annotated[bool, typer.Option(hidden=True, help="End with standard input.")] = False,
) -> None:
    """A rollout server: `rlx serve model=nano hardware=cpu`, for runs with RLX_SERVERS=HOST:PORT.

    Both sides need the same RLX_SERVER_TOKEN.
    """
    import signal

    if child:  # signals are for the run, which says by closing the pipe when its servers may go
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(signum, signal.SIG_IGN)
    from rlx.config import build_value, compose, load_tree
    from rlx.hardware import set_threads

    named = [Path(word.removeprefix("run=")) for word in words or [] if word.startswith("run=")]
    rest = [word for word in words or [] if not word.startswith("run=")]
    tree = load_tree(named[-1], rest) if named else compose(rest)
    set_threads(tree["hardware"]["num_threads"])
    model, hardware = (build_value(tree[key], key) for key in ("model", "hardware"))
    from rlx.serve import serve as serve_engine

    serve_engine(model, hardware, host=host, port=port, child=child)


@app.command(context_settings=MIXED)
def plan(words: Words = None) -> None:
    """What `rlx train` with these words would do: configuration, memory, tokens, the command. Loads nothing.

    Exit code 2 if it cannot fit.
    """
    from rlx.config import build_run, compose
    from rlx.fit import check_fit
    from rlx.plan import describe_plan

    run = build_run(compose(words or []), Path())
    show(describe_plan(run, words or []))
    check_fit(run)


@app.command(name="list")
def list_group(
    group: Annotated[
        str, typer.Argument(help="env, algo, model, hardware, protocol, …", autocompletion=lambda: groups())
    ],
) -> None:
    """The options of a group, a line each."""
    from rlx.config import ConfigError, list_groups, list_options
    from rlx.config_check import near

    if group not in list_groups():
        raise ConfigError(f"there is no group {group!r}{near(group, list_groups())}")
    options = list_options(group)
    width = max(map(len, options), default=0)
    show("\n".join(f"{name:<{width}}  {text}" for name, text in options.items()))


def groups() -> list[str]:
    from rlx.config_folders import list_groups

    return list_groups()


@app.command(context_settings=MIXED)
def data(
    words: Words = None,
    num: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 3,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    out: Annotated[Path | None, typer.Option(help="Write JSON lines there instead of showing them.")] = None,
) -> None:
    """Build and inspect tasks and demonstration traces: `rlx data env=countdown protocol=tags --num 3`."""
    from rlx.config import build_value, compose
    from rlx.data import build_rows, show_row, write_rows

    tree = compose(words or [])
    env, protocol = build_value(tree["env"], "env"), build_value(tree["protocol"], "protocol")
    rows = build_rows(env, protocol, split, tree["seed"], num)
    if out is not None:
        show(f"{write_rows(rows, out)} rows in {out}")
        return
    for row in rows:
        show(show_row(row))


@app.command()
def doctor() -> None:
    """What is installed, what this machine can run, what is missing and the command that installs it."""
    from rlx.doctor import examine

    show(examine())


@app.command()
def replay(folder: Folder) -> None:
    """Replay stored trajectories through the environment and check every reward and observation."""
    from rlx.config import ConfigError, build_value, load_tree
    from rlx.evaluate.replay import replay as replay_folder
    from rlx.model.load import decoder, load_tokenizer

    tree = load_tree(folder)
    if not any((folder / "trajectories").glob("*.jsonl")):
        raise ConfigError(f"{folder} kept no trajectories")
    env, dialect, model = (build_value(tree[key], key) for key in ("env", "protocol", "model"))
    report = replay_folder(folder, env, dialect=dialect, decode=decoder(load_tokenizer(model)))
    show(str(report))
    if not report.ok:
        raise typer.Exit(1)


@app.command(name="sweep-table")
def sweep_table(folder: Folder) -> None:
    """A table across the runs of a multirun: what varied, and what came of it."""
    from rlx.console import Screen
    from rlx.evaluate.sweep import read_sweep, sweep_table
    from rlx.evaluate.tables import to_rich

    Screen(console=stdout()).show(to_rich(sweep_table(read_sweep(folder))))


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Of runs, or of one.")] = Path("outputs"),
) -> None:
    """The runs below a folder: state, step, rate, time left, SLURM job, where."""
    from rlx.console import Screen
    from rlx.evaluate.tables import to_rich
    from rlx.status import status_table

    Screen(console=stdout()).show(to_rich(status_table(folder)))


@app.command()
def compare(ours: Folder, theirs: Folder) -> None:
    """What one run's evaluation has over another's, problem by problem, with 95% paired intervals."""
    from rlx.console import Screen
    from rlx.evaluate.compare import compare_runs
    from rlx.evaluate.tables import to_rich

    screen = Screen(console=stdout())
    for table in compare_runs(ours, theirs):
        screen.show(to_rich(table))


def stdout() -> Any:
    """A console for results, which a pipe may read."""
    from rich.console import Console

    return Console()


def show(text: str) -> None:
    """Print text that may come from anywhere: control characters are replaced, markup is not read."""
    from rlx.console import clean

    print(clean(text))


def main() -> None:
    """Run a command. A mistake is one line on stderr: exit code 2 where the words were wrong."""
    from typer.exceptions import Abort, Exit, TyperException

    try:
        code = app(standalone_mode=False, prog_name="rlx")
    except Exit as done:
        code = done.exit_code
    except TyperException as error:
        code = fail(error.format_message(), error.exit_code)
    except (Abort, KeyboardInterrupt):
        code = fail("interrupted", 130)
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if not is_told_in_one_line(error):
            raise
        code = fail(str(error), getattr(error, "exit_code", 1))
    sys.exit(code if isinstance(code, int) else 0)


def is_told_in_one_line(error: Exception) -> bool:
    """Exceptions that rlx defines say what, where and what to do; so do those of the file system."""
    return type(error).__module__.startswith("rlx.") or (isinstance(error, OSError) and error.filename is not None)


def fail(message: str, code: int) -> int:
    from rlx.console import one_line

    print(f"rlx: {one_line(message, 600)}", file=sys.stderr)
    return code
