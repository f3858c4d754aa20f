"""The command line: fast where it should be, one line where something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx import __version__
from rlx.runs.folder import MARK
from tests.errors import assert_mistake
from tests.loops import for_each

Command = Callable[..., "subprocess.CompletedProcess[str]"]
"""`rlx_here` of conftest.py: as `rlx` below, in this process, which is faster. A few commands run as programs."""
ROOT = Path(__file__).resolve().parents[1]


def rlx(*words: str, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environ}
    return subprocess.run(
        [sys.executable, "-m", "rlx", *words], capture_output=True, text=True, cwd=cwd, env=env, timeout=600
    )


def test_help_names_every_command() -> None:
    done = rlx("--help")
    assert done.returncode == 0
    for name in ("train", "eval", "plan", "list", "data", "play", "check", "replay", "compare"):
        assert f"  {name} " in done.stdout


def test_alone_it_tells_what_there_is_on_80_columns() -> None:
    done = rlx(COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == rlx("--help", COLUMNS="80").stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Examples:" in done.stdout


def test_it_tells_its_version() -> None:
    assert rlx("--version").stdout == f"rlx {__version__}\n"


@pytest.mark.parametrize(("command", "words"), [("train", "algo.optimizer.lr="), ("eval", "rlx eval run=DIR")])
def test_train_and_eval_have_a_help_of_their_own(rlx_here: Command, command: str, words: str, tmp_path: Path) -> None:
    shown = rlx_here(command, "env=countdown", "--help", cwd=tmp_path).stdout
    assert shown.startswith(f"Usage: rlx {command}")
    assert words in shown
    assert list(tmp_path.iterdir()) == []


def test_list_alone_names_the_groups_and_cd_adds_to_them(rlx_here: Command, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "maze.yaml").write_text("# A maze\n_target_: my.Maze\n")
    lines = [line.split(maxsplit=1) for line in rlx_here("list").stdout.splitlines()]
    rows = {words[0]: words[-1] for words in lines}  # a long row goes on in the next line
    assert rows["+model/lora"] == "r32, r8", "a run has none unless asked"
    assert rows["model/recipe"].endswith("nano*"), "a model brings one"
    assert "maze" in rlx_here("list", "-cd", str(tmp_path)).stdout
    assert ["maze", "A maze"] in [
        line.split(maxsplit=1) for line in rlx_here("list", "env", "-cd", str(tmp_path)).stdout.splitlines()
    ]


@pytest.mark.parametrize("command", ["plan", "data"])
def test_a_folder_of_options_can_be_named_for_one_command(rlx_here: Command, command: str, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "mine.yaml").write_text("defaults: [countdown, _self_]\nlambda_call: 0.5\n")
    done = rlx_here(command, "-cd", str(tmp_path), "env=mine")
    assert done.returncode == 0, done.stderr


@for_each(
    "words",
    [
        ["--help"],
        ["plan"],
        ["plan", "hardware=a100x8", "model=qwen2_5_7b"],
        ["list", "algo"],
        ["keys"],
        ["check"],
        ["train", "--cfg", "job"],
        ["train", "--cfg", "job", "hardware=a100x8", "model=qwen2_5_0_5b"],
    ],
)
def test_light_commands_import_no_torch(words: list[str]) -> None:
    code = (
        "import sys; sys.argv = ['rlx', *sys.argv[1:]]\n"
        "from rlx.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print({'torch', 'transformers', 'wandb', 'datasets'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT, timeout=600, check=True
    )
    assert done.stderr.strip().endswith("set()")


@for_each("module", ["typer", "rlx.cli", "rlx.commands.last_words", "rlx.settings.compose"])
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str) -> None:
    code = (
        "import sys; sys.argv = ['rlx', 'plan']\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == sys.interrupts_at: raise KeyboardInterrupt\n"
        f"sys.interrupts_at = {module!r}; sys.meta_path.insert(0, Interrupting())\n"
        "import runpy; runpy.run_module('rlx', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "rlx: interrupted\n")


def test_an_interrupt_while_words_are_read_is_one_line() -> None:
    code = (
        "import sys; sys.argv = ['rlx', 'plan']\n"
        "from rlx.commands.parts import Overview\n"
        "def interrupt(*_): raise KeyboardInterrupt\n"
        "Overview.parse_args = interrupt\n"
        "from rlx.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "rlx: interrupted\n")


@pytest.mark.parametrize("words", [["list", "env"], ["plan"], ["train"], ["keys"], ["check"]])
def test_a_folder_of_options_that_is_not_there_is_one_line(rlx_here: Command, words: list[str], tmp_path: Path) -> None:
    done = rlx_here(*words, RLX_CONF_DIR=str(tmp_path / "none"))
    assert_mistake(done, f"RLX_CONF_DIR={tmp_path / 'none'}", "folder")


def test_list_shows_a_line_for_every_option(rlx_here: Command) -> None:
    done = rlx_here("list", "algo")
    assert done.stdout.count("\n") == len(list((ROOT / "conf" / "algo").glob("*.yaml")))
    assert any(line.startswith("tool_rloo ") and len(line.split()) > 2 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["train", "env=countdwn"], ["env", "'countdwn'", "countdown"]),
        (["train", "+env.typo=1"], ["'env.typo'"]),
        (["train", "hardware.num_threads=0"], ["hardware.num_threads=0", 1024]),
        (["train", "-m", "seed=1,x"], ["seed=x"]),
        (["train", "--cfg", "job", "env=countdwn"], ["env", "'countdwn'"]),
        (["train", "--mutirun"], ["'--mutirun'", "--multirun"]),
        (["plan", "algo.num_prompts=x"], ["algo.num_prompts=x"]),
        (["plan", "hardware.num_threads=0"], ["hardware.num_threads=0", 1024]),
        (["train", "-m", "hardware.num_slots=1,0"], ["hardware.num_slots=0"]),
        (["eval", "run=/nowhere"], ["/nowhere", "run folder"]),
        (["keys", "algo.lr"], ["'algo.lr'", "algo.optimizer.lr"]),
        (["replay", "docs"], ["docs", "run folder"]),
        (["compare", "conf", "--table"], ["conf", "no runs"]),
        (["list", "env", "-cd", "/nowhere"], ["-cd /nowhere:"]),
        (["list", "envs"], ["'envs'", "env"]),
        (["data", "--num", "0"], ["'--num'"]),
        (["tran"], ["'tran'", "'train'"]),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    rlx_here: Command, words: list[str], names: list[object], tmp_path: Path
) -> None:
    run = [f"hydra.run.dir={tmp_path}"] if words[0] == "train" else []
    done = rlx_here(*words, *run)
    assert_mistake(done, *names)
    assert done.stdout == ""


def test_the_program_ends_with_the_exit_code_and_the_line_of_a_mistake() -> None:
    done = rlx("train", "env=countdwn")
    assert done.stdout == ""
    assert_mistake(done, "env", "'countdwn'", "countdown")


def test_hydra_shows_the_job_resolved() -> None:
    done = rlx("train", "--cfg", "job", "--resolve", "seed=7")
    assert done.returncode == 0
    assert "seed: 7" in done.stdout
    assert "${" not in done.stdout


def test_plan_tells_memory_steps_and_the_command(rlx_here: Command) -> None:
    done = rlx_here(
        "plan",
        "steps=7",
        "warm_start=none",
        "algo.num_prompts=2",
        "algo.num_samples=3",
        "model.max_context=100",
        "sampling.max_new_tokens=50",
    )
    assert done.returncode == 0
    assert "7 steps, 42 episodes, " in done.stdout
    assert "parameters" in done.stdout
    assert done.stdout.rstrip().endswith(
        "command     rlx train steps=7 warm_start=none algo.num_prompts=2 algo.num_samples=3 model.max_context=100 "
        "sampling.max_new_tokens=50"
    )


@pytest.mark.parametrize("command", ["plan", "train"])
def test_what_cannot_fit_is_refused_with_exit_code_2(rlx_here: Command, command: str, tmp_path: Path) -> None:
    done = rlx_here(command, "model=qwen2_5_72b", "hardware.memory_gb=64", f"hydra.run.dir={tmp_path / 'run'}")
    assert_mistake(done, "cannot fit", "this machine")
    assert bool(done.stdout) == (command == "plan")
    assert not (tmp_path / "run").exists()


def test_a_profile_of_gpus_without_one_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    done = rlx("train", "hardware=gpu1", f"hydra.run.dir={tmp_path / 'run'}", CUDA_VISIBLE_DEVICES="")
    assert_mistake(done, "GPU", "hardware=cpu")
    assert not (tmp_path / "run").exists()


def test_data_shows_and_writes_traces(rlx_here: Command, tmp_path: Path) -> None:
    shown = rlx_here("data", "--num", "2", "seed=1")
    assert shown.returncode == 0
    assert shown.stdout.count("</answer>\n[reward ") == 2
    file = tmp_path / "rows.jsonl"
    assert rlx_here("data", "--num", "2", "--split", "test", "--out", str(file)).returncode == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["success"] for row in rows] == [True, True]
    assert rows[0]["turns"][-1]["action"]["kind"] == "answer"


def test_check_alone_names_what_this_machine_can_run() -> None:
    done = rlx("check")
    assert done.returncode == 0
    assert "hardware=cpu" in done.stdout
    assert "hydra-core" in done.stdout


@pytest.mark.parametrize(
    ("line", "position", "expected"),
    [
        ("rlx train env=countd", 2, "env=countdown"),
        ("rlx train env = countd", 4, "countdown"),
        ("rlx train env = ", 3, "countdown"),
        ("rlx train algo=grpo algo.clip_l", 3, "algo.clip_low="),
        ("rlx train env = countdown algo", 5, "algo="),
        ("rlx plan hardw", 2, "hardware="),
        ("rlx list alg", 2, "algo"),
        ("rlx list ar", 2, "arm"),
        ("rlx plan +paper=carl_4b_reasoning +arm=li", 3, "+arm=lite"),
        ("rlx plan +paper = carl_4b_reasoning +arm = li", 7, "lite"),
    ],
)
def test_completion_knows_groups_options_and_keys(rlx_here: Command, line: str, position: int, expected: str) -> None:
    done = rlx_here(_RLX_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(position))
    assert expected in done.stdout.split()


def test_the_sweep_table_has_a_row_a_run_and_a_column_for_what_varies(rlx_here: Command, tmp_path: Path) -> None:
    for name, cost in (("0", 0.0), ("1", 0.05)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"{MARK}seed: 0\nenv:\n  lambda_call: {cost}\n")
    summary = {
        "status": "finished",
        "metrics": {"eval/pass@1": {"value": 0.5, "low": 0.4, "high": 0.6}},
        "seed": 0,
        "provenance": {"code": {}, "packages": {}, "interpreter": "", "data": ""},
        "git": None,
        "cost": {"tokens": 1, "tool_calls": 1, "seconds": 1.0, "device_hours": 0.0},
    }
    (tmp_path / "1" / "summary.json").write_text(json.dumps(summary))
    shown = rlx_here("compare", str(tmp_path), "--table", COLUMNS="120").stdout
    assert "lambda_call" in shown
    assert "0.05" in shown
    assert "[40.0,60.0]" in shown


def test_terminal_output_has_no_control_characters(rlx_here: Command, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "evil.yaml").write_text("# \x1b[2Jevil\n_target_: x.Y\n", encoding="utf-8")
    done = rlx_here("list", "env", RLX_CONF_DIR=str(tmp_path))
    assert "evil" in done.stdout
    assert "\x1b" not in done.stdout


def test_threads_are_chosen_before_torch_is_imported(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom rlx.settings.compose import launch\n"
        "def job(run):\n"
        "    import torch\n"
        "    print(torch.get_num_threads(), os.environ['OMP_WAIT_POLICY'])\n"
        "assert 'torch' not in sys.modules\n"
        f"launch(['hardware.num_threads=2', 'hydra.run.dir={tmp_path}'], job)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.stdout.split() == ["2", "PASSIVE"], done.stderr


def test_an_episode_is_chosen_in_one_way(rlx_here: Command, tmp_path: Path) -> None:
    for words in (["--best", "--worst"], ["--list", "--best"], ["--index", "2", "--worst"]):
        done = rlx_here("show", str(tmp_path), *words)
        assert_mistake(done, "--best", "--worst", "--list", "--index N", "--line N")


def test_a_model_is_evaluated_in_a_world_that_the_default_algorithm_is_not_for(
    rlx_here: Command, tmp_path: Path
) -> None:
    few = ("evaluate.num_tasks=2", "evaluate.num_samples=1", "evaluate.ks=[1]", "track=disabled")
    done = rlx_here("eval", "env=[game/guess_the_number,logic]", *few, f"hydra.run.dir={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "out" / "results.md").read_text()
    assert "game_guess_the_number" in table
    assert "logic" in table
