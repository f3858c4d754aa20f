"""Protocol and tokenizer of a finished run, for replays, without its weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rlx.base.regular import inside
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import dialect_of, parts_of
from rlx.model.expand import read_names, widen
from rlx.model.load import Model, encode_text, load_tokenizer
from rlx.model.problem import ModelError
from rlx.model.shape import ACTIONS, find_file, find_shape
from rlx.protocol.automaton import Actions
from rlx.protocol.drawn import Encode, added_by, drawn_by
from rlx.rollout.speech import Speech, speech_of
from rlx.runs.folder import CHECKPOINTS, STEP, steps_in


def stored_speech(folder: Path, env: Environment, protocol: Dialect, model: Model) -> Speech:
    """Return the speech of the run in `folder`, with the added actions that its checkpoints or its model name."""
    tokenizer = load_tokenizer(model)
    encode = partial(encode_text, tokenizer)
    dialects = {name: dialect_of(env, protocol, name) for name in parts_of(env)}
    added = added_by(dialects)
    actions = stored_actions(folder, model, added, encode) if added else None
    return speech_of(protocol, tokenizer, chat=model.chat, drawn=drawn_by(dialects, actions, encode))


def stored_actions(folder: Path, model: Model, added: Mapping[str, str], encode: Encode) -> Actions:
    """Return the added actions for which the run's model had rows."""
    shape = find_shape({"path": model.path, "shape": model.shape})
    if shape is None:
        raise ModelError(f"model.path={model.path}: its config.json is not here, which says how many ids it has")
    saved = [inside(folder, CHECKPOINTS, f"{STEP}{step}", ACTIONS) for step in steps_in(inside(folder, CHECKPOINTS))]
    files = [file for file in (*reversed(saved), find_file(model.path, ACTIONS)) if file is not None and file.is_file()]
    saved_actions = read_names(files[0]) if files else None
    return widen(saved_actions, {name: tuple(encode(text)) for name, text in added.items()}, shape.vocabulary)
