"""Names of environments: the options of conf/env, by their own names or as GEM writes them.

    game:GuessTheNumber-v0-extreme-hard  ->  game/guess_the_number_extreme_hard    rg:chain_sum  ->  rg, task=chain_sum

The rule: what stands before the colon is the folder; the version is dropped, and so are case, `-` and `_`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from numbers import Integral
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from rlx.base.limits import MANY, MistakeError, near, within
from rlx.env.questions.qa import WordQuestions
from rlx.env.questions.sourced import SourcedQuestions
from rlx.environment import AnswerForm, Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import is_reproducible, parts_of
from rlx.gym.keywords import translate
from rlx.gym.registered import REGISTERED, make_registered
from rlx.gym.single import TextEnv
from rlx.gym.spaces import require
from rlx.gym.vector import TextVectorEnv
from rlx.settings.check import ConfigError, check_call
from rlx.settings.folders import config_folders, list_options, option_files, read_option

Wrapper = Callable[[gymnasium.Env[Any, str]], gymnasium.Env[Any, str]]
FORMS: Mapping[AnswerForm, str] = {"line": "boxed", "program": "fenced", "turn": "whole"}
"""Protocols by the form of an environment's answers."""
EVALUATIONS = "eval/"
"""Folder of options for evaluation alone; all of their questions are played, as in GEM."""
VERSION = re.compile(r"-v\d+")
REFERENCE = re.compile(r"\$\{model\.recipe\.(\w+)\}")
RELATIVE = re.compile(r"\$\{(\.+)([\w.]+)\}")
RECIPE = "3b"
"""Recipe whose tool limits and interpreter an environment gets where no model says its own."""
WITHOUT_MODEL = {"${model.recipe.reasoning}": True, "${model.recipe.action_rows}": "word"}
"""Values of references to a model, which the gym does not know."""
MOST = 10**5
"""Environments of a vector: making so many takes seconds."""


def make(env_id: str, *, protocol: str | Dialect | None = None, window: int | None = None, **keywords: Any) -> TextEnv:
    """Make the environment of a name. `keywords` are those of `TextEnv`; the others are keys of the environment's own
    option, as in `max_turns=5`, or GEM's names for them; `window` is the protocol's. `protocol=None` chooses by the
    environment. Of a name that was registered, an instance of its class."""
    if env_id in REGISTERED:
        return make_registered(env_id, keywords)  # type: ignore[return-value]
    option, task_keywords = find_task(env_id)
    keywords = task_keywords | translate(keywords, {*read_option("env", option, config_folders()), *SETTINGS})
    settings = {name: value for name, value in keywords.items() if name in SETTINGS}
    keys = {name: value for name, value in keywords.items() if name not in SETTINGS}
    if option.startswith(EVALUATIONS):
        keys = {"num_test": MANY, **keys}
    env = build_env(option, keys)
    if is_test_alone(env):
        settings = {"split": "test", **settings}
    spoken = build_protocol(
        form_of(env) if protocol is None else protocol, {} if window is None else {"window": window}
    )
    kwargs = {"env_id": option, "protocol": protocol, "window": window, **keywords}
    is_same = is_reproducible(env) and all(part.replayable for part in parts_of(env).values())
    spec = EnvSpec(id=f"{option}-v0", entry_point="rlx.gym:make", nondeterministic=not is_same, kwargs=kwargs)
    return TextEnv(env, spoken, spec=spec, **settings)


def make_vec(
    env_ids: str | Sequence[str],
    num_envs: int | None = None,
    *,
    asynchronous: bool = True,
    autoreset: str = "same_step",
    num_threads: int | None = None,
    seed: int = 0,
    wrappers: Sequence[Wrapper] | None = None,
    vec_kwargs: Sequence[Mapping[str, Any]] | None = None,
    async_mode: bool | None = None,
    **keywords: Any,
) -> TextVectorEnv:
    """So many environments, of these names in turn (one of each, unless `num_envs` says how many), with `seed` and the
    numbers after it. `vec_kwargs` are keywords of each alone; `async_mode` is GEM's word for `asynchronous`."""
    require(Sequence, "a name of an environment, or several", env_ids=env_ids)
    names = [env_ids] if isinstance(env_ids, str) else list(env_ids)
    num = len(names) if num_envs is None else num_envs
    require(Integral, "an integer", num_envs=num, seed=seed)
    within(1, MOST, num_envs=num)
    env_keywords = keywords_of(num, vec_kwargs)
    for wrap in wrappers if isinstance(wrappers, list | tuple) else [wrappers] * (wrappers is not None):
        require(Callable, "functions, such as get_wrapper_fns gives", wrappers=wrap)
    first_envs: dict[str, TextEnv] = {}
    envs: list[gymnasium.Env[Any, str]] = []
    for i in range(num):
        kwargs = {"env_id": names[i % len(names)], **keywords, **env_keywords[i]}
        if kwargs["env_id"] in REGISTERED:
            single: gymnasium.Env[Any, str] = make(**{"seed": seed + i, **kwargs})
            envs.append(reduce(lambda env, wrap: wrap(env), wrappers or (), single))
            continue
        its_seed = kwargs.pop("seed", seed + i)
        first = first_envs.get(repr(kwargs)) or first_envs.setdefault(repr(kwargs), make(**kwargs))
        envs.append(reduce(lambda env, wrap: wrap(env), wrappers or (), first.another(its_seed)))
    is_threaded = asynchronous if async_mode is None else async_mode
    return TextVectorEnv(envs, autoreset=autoreset, asynchronous=is_threaded, num_threads=num_threads)


def keywords_of(num: int, each: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the keywords of each environment alone."""
    require(Sequence, "a list with keywords for each environment", vec_kwargs=each or [])
    for env_keywords in each or []:
        require(Mapping, "keywords for each environment", vec_kwargs=env_keywords)
    if each and len(each) != num:
        raise MistakeError(f"{len(each)} vec_kwargs: expected one for each of {num} environments")
    return list(map(dict, each or [{}] * num))


def print_envs() -> None:
    """Print every environment with a line of what it is."""
    for option, text in list_options("env", config_folders()).items():
        print(f"{option:<40} {text}")
    for env_id, registration in REGISTERED.items():
        print(f"{env_id:<40} registered: {registration.entry_point}")


SETTINGS = set(inspect.signature(TextEnv).parameters) - {"env", "protocol", "spec"}


def find_task(name: str) -> tuple[str, dict[str, Any]]:
    """An option, and the key that a name adds to it: `rg:chain_sum` is the option `rg` with task=chain_sum, where there
    is no option of that name."""
    if not isinstance(name, str):
        raise ConfigError(f"there is no environment {name!r:.80}: expected a name, such as game:GuessTheNumber-v0")
    family, _, task = name.partition(":")
    options = option_files("env", config_folders())
    is_own = not task or family not in options or bare(name) in map(bare, options)
    if is_own or "task" not in read_option("env", family, config_folders()):
        return find_option(name), {}
    return family, {"task": task}


def find_option(name: str) -> str:
    """The option of conf/env that a name means; ConfigError with names near it where there is none."""
    options = option_files("env", config_folders())
    if name in options:
        return name
    options_by_name = {bare(option): option for option in reversed(options)}
    if bare(name) not in options_by_name:
        raise ConfigError(f"there is no environment {name!r:.80}{near(name, options)}")
    return options_by_name[bare(name)]


def bare(name: str) -> str:
    """Return a name without its version, case and hyphens."""
    return re.sub(r"[-_]", "", VERSION.sub("", name)).replace(":", "/", 1).lower()


def build_env(option: str, keys: Mapping[str, Any]) -> Environment:
    """The environment of an option, with these keys in place of its own; ConfigError for what it does not have."""
    env: Environment = build("env", option, keys)
    return env


def is_test_alone(env: Environment) -> bool:
    """True for an environment whose data set is for evaluation alone: test questions come from its only split."""
    return isinstance(env, SourcedQuestions) and env.test_split == env.split


def form_of(env: Environment) -> str:
    """Return the protocol of GEM's form of a turn: a block of code for programs, `<answer>` for questions that are
    answered in words, else a box; whole turns where the environment parses them itself."""
    forms = {
        FORMS[part.answer_form] if not isinstance(part, WordQuestions) else "tags" for part in parts_of(env).values()
    }
    return forms.pop() if len(forms) == 1 else "boxed"


def build_protocol(protocol: str | Dialect, keys: Mapping[str, Any]) -> Dialect:
    """Build the protocol of this name in conf/protocol; return a `Dialect` unchanged."""
    if not isinstance(protocol, (str, Dialect)):
        raise MistakeError(f"protocol={protocol!r:.60}: expected the name of one, or a Dialect")
    if not isinstance(protocol, str):
        return protocol
    dialect: Dialect = build("protocol", protocol, keys)
    return dialect


def resolve(value: Any) -> Any:
    """Replace references to the model's recipe: here is no model, so they mean that of a model of RECIPE's size."""
    if isinstance(value, dict):
        return {key: resolve(child) for key, child in value.items()}
    if isinstance(value, list):
        return [resolve(child) for child in value]
    match = REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return read_option("model/recipe", RECIPE)[match[1]] if match else value


def refer(value: Any, above: Sequence[Any] = ()) -> Any:
    """Replace references to other keys of the same option, such as `${...train.env.top_k}`: each dot but the first is a
    level up."""
    if isinstance(value, dict):
        return {key: refer(child, (*above, value)) for key, child in value.items()}
    match = RELATIVE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    place: Any = above[-len(match[1])]
    for key in match[2].split("."):
        place = place[key]
    return place


def build(group: str, option: str, keys: Mapping[str, Any]) -> Any:
    """Build an option, under the checks of every configuration."""
    from rlx.settings.build import build_part  # the types of a whole run come with it

    folders = config_folders()
    options = option_files(group, folders)
    if option not in options:
        raise ConfigError(f"{group} has no option {option!r:.80}{near(option, options)}")
    tree = refer({**resolve(read_option(group, option, folders)), **keys})
    check_call(tree, group)
    return build_part({group: tree}, group)
