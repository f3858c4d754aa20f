"""Configuration: what is shipped composes and fits its signatures; what is wrong is refused in one line."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from rlx.hardware.interrupt import InterruptedRunError
from rlx.run.run import Run
from rlx.settings.build import build_value
from rlx.settings.check import check_value, near
from rlx.settings.compose import ConfigError, compose, launch, list_groups, list_options, run_folder
from rlx.settings.folders import search_folders, shipped_folder
from rlx.settings.signature import signature
from rlx.settings.values import word_of
from tests.errors import raises_naming
from tests.loops import for_each

CONF = shipped_folder("conf")
OPTIONS = [(f.parent.name, f.stem) for f in sorted(CONF.glob("*/*.yaml")) if f.parent.name != "paper"]
"""All but a paper's presets: their keys are other groups', and test_papers.py holds their sources."""
ADAPTERS = [file.stem for file in sorted(CONF.glob("model/lora/*.yaml"))]


def test_the_first_line_of_every_shipped_option_describes_it() -> None:
    for group, option in OPTIONS:
        assert list_options(group)[option], (group, option)


def test_an_algorithm_chooses_its_protocol_and_warm_start() -> None:
    tree = compose(["algo=tool_rloo"])
    assert tree["protocol"]["_target_"] == "rlx.protocol.tags.Tags"
    assert tree["warm_start"]["algo"]["_target_"] == "rlx.algo.tool_sft.tool_sft"
    tree = compose(["algo=rloo"])
    assert tree["protocol"]["_target_"] == "rlx.protocol.answer.Answer"
    assert tree["warm_start"]["algo"]["_target_"] == "rlx.algo.sft.sft"
    assert compose(["algo=tool_sft"])["warm_start"]["steps"] == 0


EARL = {
    "earl": ("cpo", "ExpA", False),
    "expa_grpo": ("grpo", "ExpA", False),
    "prompt_cpo": ("cpo", "Tags", False),
    "prompt_grpo": ("grpo", "Tags", False),
    "sft_grpo": ("grpo", "Tags", True),
}
"""Its paper's methods: the algorithm, how one acts, and whether demonstrations come first."""


def test_earl_s_baselines_are_what_their_names_say() -> None:
    trees = {name: compose([f"algo={name}", "env=sorting/sort3"]) for name in EARL}
    for name, tree in trees.items():
        algo, protocol = (tree[key]["_target_"].rpartition(".")[2] for key in ("algo", "protocol"))
        assert (algo, protocol, tree["warm_start"]["steps"] > 0) == EARL[name]
    assert all(trees[name]["protocol"]["instruction"] is None for name in EARL if EARL[name][1] == "Tags")
    assert trees["sft_grpo"]["warm_start"]["algo"]["_target_"] == "rlx.algo.sft.sft"
    for cpo, grpo in (("earl", "expa_grpo"), ("prompt_cpo", "prompt_grpo")):
        one, other = trees[cpo]["algo"], trees[grpo]["algo"]
        assert (other["scale"], other["gamma"]) == ("std", None), "as cpo where an episode earned something"
        differs = {key for key in {*one, *other} if one.get(key) != other.get(key)}
        assert differs == {"_target_", "twins", "scale", "start", "drop_equal"}, "the sampler and the credit"
        assert all(trees[cpo][key] == trees[grpo][key] for key in trees[cpo] if key != "algo")


@for_each("algo", ["reinforce", "rebn", "a2c", "ppo"])
def test_turn_level_algorithms_play_a_game_in_lines_after_a_brief_start(algo: str) -> None:
    tree = compose([f"algo={algo}", "env=game/guess_the_number"])
    assert tree["protocol"]["_target_"] == "rlx.protocol.direct.Direct"
    assert (tree["warm_start"]["algo"]["_target_"], tree["warm_start"]["steps"]) == ("rlx.algo.sft.sft", 20)
    assert tree["sampling"]["max_new_tokens"] == tree["model"]["recipe"]["turn_tokens"], "and not of one long answer"
    assert compose([f"algo={algo}", "warm_start=none"])["warm_start"]["steps"] == 0


def test_the_command_line_wins_over_what_an_algorithm_chooses() -> None:
    tree = compose(["algo=tool_rloo", "protocol=answer", "warm_start=sft", "warm_start.steps=7"])
    assert tree["protocol"]["_target_"] == "rlx.protocol.answer.Answer"
    assert tree["warm_start"]["algo"]["_target_"] == "rlx.algo.sft.sft"
    assert tree["warm_start"]["steps"] == 7
    assert compose(["warm_start=none"])["warm_start"]["algo"] is None


def test_a_warm_start_does_not_choose_for_the_run() -> None:
    """sft speaks `answer`, but only a run of sft itself does."""
    tree = compose(["algo=tool_rloo", "algo@warm_start.algo=sft"])
    assert tree["warm_start"]["algo"]["_target_"] == "rlx.algo.sft.sft"
    assert tree["protocol"]["_target_"] == "rlx.protocol.tags.Tags"


@pytest.mark.parametrize("option", ADAPTERS)
def test_every_adapter_joins_a_model(option: str) -> None:
    assert compose([f"+model/lora={option}"])["model"]["lora"]["_target_"] == "rlx.model.load.Lora"


def test_equal_words_give_equal_trees() -> None:
    assert compose(["seed=3"]) == compose(["seed=3"]) != compose(["seed=4"])


@for_each(
    "words, names",
    [
        (["env=countdwn"], ("env", "'countdwn'", "countdown")),
        (["hydra/launcher=bsic"], ("hydra/launcher", "'bsic'", "basic")),
        (["+sweep=tool_cst"], ("sweep", "'tool_cst'", "tool_cost")),
        (["env.max_round=3"], ("'env.max_round'", "max_rounds")),
        (["+env.max_round=3"], ("'env.max_round'", "max_rounds")),
        (["++env.max_round=3"], ("'env.max_round'", "max_rounds")),
        (["algo.optimizer.warmup=3"], ("'algo.optimizer.warmup'", "warmup_steps")),
        (["warm_start.algo.num_promts=3"], ("'warm_start.algo.num_promts'", "num_prompts")),
        (["+foo=1"], ("'foo'",)),
        (["algo.lr=1"], ("'algo.lr'", "algo.optimizer.lr", "warm_start.algo.optimizer.lr")),
        (["algo.learning_rate=1"], ("'algo.learning_rate'", "algo.optimizer.lr")),
        (["env.temperature=1"], ("'env.temperature'",)),
        (["sead=1"], ("'sead'", "seed")),
        (["envv=countdown"], ("'envv'", "env")),
        (["seed=a"], ("seed=a",)),
        (["steps=1.5"], ("steps=1.5",)),
        (["steps=true"], ("steps=true",)),
        (["env.max_rounds=null"], ("env.max_rounds=null",)),
        (["env.lambda_call=[1]"], ("env.lambda_call=[1]",)),
        (["env.numbers=3"], ("env.numbers=3",)),
        (["env.numbers=[3,x]"], ("env.numbers=[3,x]",)),
        (["env.verifier=formt"], ("env.verifier=formt", "format")),
        (["hardware.device=gpu"], ("hardware.device=gpu", "cpu")),
        (["algo.optimizer.betas=[0.9]"], ("algo.optimizer.betas=[0.9]", "2")),
        (["algo.kl=0.1"], ("'algo.kl'", "algo.loss.kl")),
        (["algo=grpo", "algo.normalisation=token"], ("'algo.normalisation'", "algo.loss.normalisation")),
        (["algo.loss.kl_estimator=k9"], ("algo.loss.kl_estimator=k9", "k3")),
        (
            ["algo.loss.normalisation=sequnce"],
            ("algo.loss.normalisation=sequnce", "sequence"),
        ),
        (["track.mode=ofline"], ("track.mode=ofline", "offline")),
        (["env.lambda_call=nan"], ("env.lambda_call=nan",)),
        (["algo.optimizer=3"], ("algo.optimizer=3", "Optimizer", "_target_")),
        (["algo.clip=x"], ("algo.clip=x",)),
        (["env=game/suduko"], ("env", "'game/suduko'", "game/sudoku")),
        (["env=sudoku"], ("env", "'sudoku'", "game/sudoku")),
        (["env=game:Sudoku-v0"], ("env", "'game:Sudoku-v0'", "game/sudoku")),
        (["env=math/gsm8"], ("env", "'math/gsm8'", "math/gsm8k")),
        (["env=null"], ("env", "'null'")),
        (["env=5"], ("env", "'5'")),
        (["algo={a:1}"], ("algo", "'{a:1}'")),
        (["env.numbers={a:1}"], ("env.numbers={a:1}", "`rlx keys env.numbers`")),
        (
            ["env=mixture", "env.parts.first=null"],
            ("env.parts.first=null", "Portion", "_target_"),
        ),
        (["env=mixture", "+env.parts.third={}"], ("env.parts.third={}", "Portion", "_target_")),
        (["env._target_=rlx.env.countdown.countdown.Countdwn"], ("'Countdwn'", "rlx.env.countdown.countdown")),
        (
            ["env._target_=nowhere.Env"],
            ("'nowhere'", "PYTHONPATH"),
        ),
        (["env._target_=3"], ("env._target_=3",)),
        (["~env.max_rounds", "~seed"], ("seed", "+seed=")),
        (["model.path=???"], ("model.path",)),
        (["seed=${nothing}"], ("'nothing'", "Interpolation")),
        (["env=("], ("'env=('", "'env=\"(\"'")),
        (["countdown"], ("'countdown'", "key=value")),
        (["--mutirun"], ("'--mutirun'", "--multirun")),
        (["-cd", "/nowhere"], ("/nowhere",)),
        (["seed=1,2"], ("'seed=1,2'", "Ambiguous")),
        (["seed='1\x1b[2Jx'"], ("seed=1\\x1b[2Jx",)),
        (["policies.agent=frozen"], ("policies.agent=frozen", "+policy@policies.agent=frozen")),
        (["+policies.agent=frozn"], ("policies.agent=frozn", "+policy@policies.agent=frozen|served")),
    ],
)
def test_a_mistake_is_one_line_with_names_near_it(words: list[str], names: tuple[str, ...]) -> None:
    with raises_naming(ConfigError, *names):
        compose(words)


@for_each(
    "words, names",
    [
        (["seed=1,x"], ("seed=x",)),
        (["env.lambda_call=0.1,0.2", "env.max_rounds=5,y"], ("env.max_rounds=y",)),
        (["+sweep=tool_cost", "algo=tool_rloo,tol_rloo"], ("algo", "'tol_rloo'", "tool_rloo")),
        (["+sweep=tool_cost", "+env.foo=1"], ("'env.foo'",)),
    ],
)
def test_every_value_of_a_multirun_is_checked_before_its_first_job(words: list[str], names: tuple[str, ...]) -> None:
    with raises_naming(ConfigError, *names):
        launch(["-m", *words], lambda run: pytest.fail("a job began"))


@for_each("value", ["${nope}", "${now:}", "${oc.env:NO_SUCH_VARIABLE}", "${hydra:foo.bar}"])
def test_a_folder_named_by_what_leads_nowhere_is_refused_by_its_key(value: str) -> None:
    with raises_naming(ConfigError, f"hydra.run.dir={value}"):
        compose([f"hydra.run.dir={value}"], writes=True)


@pytest.mark.parametrize("word", ["hydra.run.dir=", "hydra.run.dir=' '", "hydra.sweep.dir=", "hydra.sweep.subdir="])
def test_a_folder_without_a_name_is_refused(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the folder one is in."""
    monkeypatch.chdir(tmp_path)
    with raises_naming(ConfigError, word.partition("=")[0] + "=", "folder"):
        launch([word], lambda run: pytest.fail("a job began"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["a: [1\n", "a: b: c\n", "\tx: 1\n", "[1]\n", "", "low: 1\nlow: 2\n", "word\n", "\0\n"]
)
def test_a_file_that_is_no_option_is_one_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "mine.yaml").write_text(text)
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path))
    with pytest.raises(ConfigError) as error:
        compose(["env=mine"])
    assert "\n" not in str(error.value)


def test_a_list_of_options_says_which_file_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "broken.yaml").write_text("# Fine so far\na: [1\n")
    (tmp_path / "env" / "binary.yaml").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path))
    options = list_options("env")
    assert options["broken"].startswith("(cannot be read: ")
    assert "line 3" in options["broken"]
    assert options["binary"].startswith("(cannot be read: ")


def test_launch_runs_the_job_in_its_folder(tmp_path: Path) -> None:
    runs = []
    launch(["seed=5", f"hydra.run.dir={tmp_path / 'run'}"], runs.append)
    assert runs[0].seed == 5
    assert runs[0].folder == tmp_path / "run"
    assert runs[0].config == compose(["seed=5"])


@pytest.mark.parametrize(("kind", "options"), [("run", []), ("sweep", ["-m"])])
def test_a_folder_named_like_a_reference_is_refused_before_it_is_made(
    kind: str, options: list[str], tmp_path: Path
) -> None:
    key = f"hydra.{kind}.dir"
    with raises_naming(ConfigError, key, "${seed}"):
        launch([*options, "seed=5", word_of(key, str(tmp_path / "${seed}"))], lambda run: pytest.fail("a job began"))
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_sweeps_is_not_read_for_a_single_run(tmp_path: Path) -> None:
    runs: list[Run] = []
    launch([f"hydra.run.dir={tmp_path / 'run'}", "hydra.sweep.dir=${oc.env:NO_SUCH_VARIABLE}"], runs.append)
    assert [run.folder for run in runs] == [tmp_path / "run"]


def test_a_multirun_runs_every_combination_in_a_folder_of_its_own(tmp_path: Path) -> None:
    runs = []
    launch(["-m", "+sweep=tool_cost", "env.max_rounds=5", f"hydra.sweep.dir={tmp_path}"], runs.append)
    assert [run.env.lambda_call for run in runs] == [0.0, 0.02, 0.05]
    assert {run.env.max_rounds for run in runs} == {5}
    assert [run.folder.name for run in runs] == ["0", "1", "2"]


def test_a_signal_ends_the_whole_multirun(tmp_path: Path) -> None:
    runs = []

    def job(run: Run) -> None:
        runs.append(run)
        raise InterruptedRunError(signal.SIGINT)

    with pytest.raises(InterruptedRunError):
        launch(["-m", "seed=1,2", f"hydra.sweep.dir={tmp_path}"], job)
    assert len(runs) == 1


def test_what_a_job_raises_comes_out_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        launch([f"hydra.run.dir={tmp_path}"], lambda run: 1 // 0)
    assert capsys.readouterr().err == ""


def test_what_a_signature_refuses_is_told_with_its_place() -> None:
    tree = compose(["hardware.num_threads=0"])
    with raises_naming(ConfigError, "hardware.num_threads=0", 1024):
        build_value(tree["hardware"], "hardware")


def test_a_key_the_file_leaves_out_can_be_added() -> None:
    assert compose(["~env.max_rounds", "+env.max_rounds=3"])["env"]["max_rounds"] == 3


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own environment: a module on the path and a yaml in RLX_CONF_DIR."""
    (tmp_path / "my_maze.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass, field, KW_ONLY\n"
        "from typing import ClassVar, Literal, Optional\nimport no_such_module_is_ever_imported\n"
        "Way = Literal['left', 'right']\n"
        "@dataclass(frozen=True)\nclass Grid:\n    _: KW_ONLY\n    width: int\n    kind: ClassVar[str] = 'x'\n"
        "@dataclass(frozen=True)\nclass Maze(Grid):\n    way: Way | None = None\n    "
        "seeds: Optional[list[int]] = None\n"
        "    names: dict[str, float] = field(default_factory=dict)\n    made: int = field(init=False, default=0)\n"
    )
    (tmp_path / "conf" / "env").mkdir(parents=True)
    (tmp_path / "conf" / "env" / "maze.yaml").write_text("# A maze\n_target_: my_maze.Maze\n# Wide\nwidth: 3\n")
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_users_own_folder_adds_options(own_folder: Path) -> None:
    assert compose(["env=maze", "+env.way=left", "+env.seeds=[1,2]", "+env.names={a: 1.5}"])["env"]["width"] == 3
    assert list_options("env")["maze"] == "A maze"
    assert "countdown" in list_options("env")


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("+env.way=up", ("env.way=up", "left", "right")),
        ("+env.seeds=[1,a]", ("env.seeds=[1,a]",)),
        ("+env.names={a: b}", ("env.names.a=b",)),
        ("+env.names=[1]", ("env.names=[1]",)),
        ("+env.made=1", ("'env.made'",)),
        ("+env.kind=y", ("'env.kind'",)),
        ("~env.width", ("env.width", "+env.width=")),
    ],
)
def test_a_users_own_signature_is_checked_without_importing_it(
    own_folder: Path, word: str, names: tuple[str, ...]
) -> None:
    with raises_naming(ConfigError, *names):
        compose(["env=maze", word])


def test_a_target_that_cannot_be_imported_is_told_when_built(own_folder: Path) -> None:
    tree = compose(["env=maze"])
    with raises_naming(ConfigError, "env:", "'no_such_module_is_ever_imported'"):
        build_value(tree["env"], "env")


def test_a_folder_given_with_cd_comes_first(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    text = (CONF / "env" / "countdown.yaml").read_text()
    (tmp_path / "env" / "mine.yaml").write_text(f"{text}max_rounds: 2\n")
    assert compose(["-cd", str(tmp_path), "env=mine"])["env"]["max_rounds"] == 2


def test_a_folder_named_conf_here_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ("rlx-here", tmp_path / "conf") in search_folders()
    monkeypatch.chdir(CONF.parent)
    assert all(folder.resolve() != CONF.resolve() for _, folder in search_folders())


def test_signatures_of_functions_classes_and_what_has_no_source() -> None:
    assert signature("rlx.algo.tool_rloo.tool_rloo").parameters["optimizer"].required
    assert not signature("rlx.hardware.profile.Hardware").parameters["dtype"].required
    assert (
        "key" in signature("rlx.settings.check.near").parameters
        or signature("rlx.settings.check.near").parameters["name"]
    )
    assert list(signature("math.sqrt").parameters) == []
    with raises_naming(LookupError, "'nothing'"):
        signature("rlx.hardware.profile.nothing")


def test_partial_calls_need_not_be_complete() -> None:
    call = {"_target_": "rlx.run.run.Checkpoint", "_partial_": True, "interval": 3}
    check_value(call, "checkpoint")
    assert build_value(call, "checkpoint")(keep=1).interval == 3


def test_a_name_on_a_hub_as_option_leads_to_its_option_or_path() -> None:
    with raises_naming(ConfigError, "model", "'Qwen/Qwen3-4B'", "model=qwen3_4b_instruct"):
        compose(["env=countdown", "model=Qwen/Qwen3-4B"])
    with raises_naming(ConfigError, "model", "'nobody/thing'", "model.path=nobody/thing", "model/recipe="):
        compose(["env=countdown", "model=nobody/thing"])
    with raises_naming(ConfigError, "model/recipe", "'9b'"):
        compose(["env=countdown", "model/recipe=9b"])


def test_near_names() -> None:
    assert near("sead", ["seed", "steps"]) == "; did you mean seed?"
    assert near("zzz", ["seed", "steps"]) == "; there is seed, steps"
    assert near("zzz", []) == ""
    assert near("zzz", [f"{i:02}" for i in range(27)]).endswith(", 23, 24 and 2 more")


def test_groups_are_those_of_every_folder() -> None:
    assert {"env", "algo", "protocol", "model", "hardware", "sweep"} <= set(list_groups())


def test_two_runs_that_start_together_have_two_folders_named_by_their_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.fullmatch(r"outputs/countdown-tool_rloo/[-_0-9]+-seed3", run_folder(["seed=3"]))
    runs: list[Run] = []
    name = "hydra.run.dir='same time, ${now:%Y}, seed ${seed}'"
    for seed in (1, 1, 2):
        launch([name, f"seed={seed}"], runs.append)
    folders = [run.folder.name for run in runs]
    assert folders == [f"{folders[0]}", f"{folders[0]}-2", folders[0].replace("seed 1", "seed 2")]
    launch(["-m", "hydra.sweep.dir=sweep-${now:%Y}", "seed=1"], runs.append)
    launch(["-m", "hydra.sweep.dir=sweep-${now:%Y}", "seed=1"], runs.append)
    assert runs[-1].folder.parent.name == f"{runs[-2].folder.parent.name}-2"
    launch(["hydra.run.dir=fixed"], runs.append)
    launch(["hydra.run.dir=fixed"], runs.append)
    assert runs[-1].folder == runs[-2].folder == Path("fixed").absolute()


@pytest.mark.parametrize(
    ("word", "key", "file"),
    [
        ("+algo.foo=1", "algo.foo", "conf/algo/tool_rloo.yaml"),
        ("algo.num_sample=1", "algo.num_sample", "conf/algo/tool_rloo.yaml"),
        ("+model.recipe.foo=1", "model.recipe.foo", "conf/model/recipe/nano.yaml"),
    ],
)
def test_an_unknown_key_is_told_with_the_file_of_its_place(word: str, key: str, file: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose(["algo=tool_rloo", word])
    assert {f"{key!r}:", f"{file};"} <= set(str(error.value).split())
