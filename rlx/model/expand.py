"""Output rows of actions beyond the vocabulary: the model's parameter `action_rows`, and the action of each row.

Yue et al. 2025, "Expanding the Action Space of LLMs to Reason Beyond Language"

The head may be the input embedding too, so the rows are a separate parameter. They are joined to the head where
log-probs are computed. Action i starts from the output rows of its description, in one of three ways:

    description:  w_i.h ~ W[d_1].h + log p(d_2 ... d_n | h, d_1)        fitted (rlx.model.rows)
    word:         w_i = mean of W[d_1], ..., W[d_n]
    first:        w_i = W[d_1]                                          as released

In all three ways, an action with a single token is at first exactly as likely as its token. A blank at a description's
end is not part of d: the blank separates the action from the next choice. `word` and `first` also leave out a blank
token at the beginning: with it, different actions would start alike. Most vocabularies have words with their blanks, as
" compare". Inputs need no rows: a context holds descriptions. On disk the actions are two files in the model's plain
Hugging Face folder: `actions.json` describes the rows of `actions.safetensors`.

Legend: A actions, V vocabulary, H hidden size.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlx.base.regular import read_bounded, write_aside
from rlx.model.problem import ModelError
from rlx.model.shape import ACTIONS as NAMES
from rlx.protocol.automaton import Actions
from rlx.protocol.drawn import Initial
from rlx.runs.form import CodecError, ids, natural, record, require_list, string

ROWS = "action_rows"
"""The parameter's name, in the model, among an engine's weights and in the file."""
START = "action_rows_start"
"""Initial rows of a model with adapters, for the policy without them."""
TENSORS = "actions.safetensors"
NOTHING: Mapping[str, Any] = {}


def actions_of(model: Any) -> Actions | None:
    """Return the actions that a model has rows for, if it has some."""
    return getattr(model, "actions", None)


def expand(
    model: Any,
    wanted: Mapping[str, tuple[int, ...]],
    initial: Mapping[str, Initial] = NOTHING,
    blanks: Collection[int] = (),
    fitted: Mapping[str, Tensor] = NOTHING,
) -> Actions:
    """Add a row to a model for each wanted action without a row; existing rows and ids do not change.
    `wanted` has the ids of each description, by action name; `fitted` the rows of descriptions of several tokens.
    ModelError if an existing action has another description."""
    existing = actions_of(model)
    head_VH = model.get_output_embeddings().weight.detach()
    actions = widen(existing, wanted, len(head_VH))
    old = 0 if existing is None else len(existing.names)
    new = [
        fitted[name] if name in fitted else first_row(head_VH, telling(ids, blanks), initial.get(name, "word"))
        for name, ids in zip(actions.names[old:], actions.descriptions[old:])
    ]
    if new:
        attach(
            model, actions, torch.stack(new) if existing is None else torch.cat((model.action_rows, torch.stack(new)))
        )
    return actions


def widen(existing: Actions | None, wanted: Mapping[str, tuple[int, ...]], first: int) -> Actions:
    """A model's actions and those wanted that are none of them, with ids from `first` on; ModelError for another
    description."""
    old = {} if existing is None else dict(zip(existing.names, existing.descriptions))
    changed = [name for name, ids in wanted.items() if old.get(name, ids) != ids]
    if changed:
        raise ModelError(f"action {changed[0]!r} has another description than the model was trained with; rename it")
    descriptions = old | {name: ids for name, ids in wanted.items() if name not in old}
    return Actions(first=first, names=tuple(descriptions), descriptions=tuple(descriptions.values()))


def telling(description: tuple[int, ...], blanks: Collection[int]) -> tuple[int, ...]:
    """A description without blanks, or all of it where it has nothing else."""
    return tuple(token_id for token_id in description if token_id not in blanks) or description


def first_row(head_VH: Tensor, description: tuple[int, ...], initial: Initial) -> Tensor:
    """Return an action's initial row, by its words."""
    rows = head_VH[list(description[:1] if initial == "first" else description)]
    return rows[0].clone() if len(rows) == 1 else rows.mean(0)


def attach(model: Any, actions: Actions, rows_AH: Tensor) -> None:
    """Make the rows a parameter of the model's own."""
    model.actions = actions
    model.register_parameter(ROWS, torch.nn.Parameter(rows_AH.detach()))


def train_rows(base: Any) -> None:
    """Let the rows learn beside adapters, and keep the initial ones."""
    if actions_of(base) is not None:
        rows_AH = getattr(base, ROWS).requires_grad_(True)
        base.register_buffer(START, rows_AH.detach().clone(), persistent=False)


def write_actions(folder: Path, actions: Actions, rows_AH: Tensor) -> None:
    write_aside(folder / NAMES, json.dumps(actions_to_json(actions), indent=1) + "\n")
    save_file({ROWS: rows_AH}, folder / TENSORS, metadata={"format": "pt"})


def read_actions(folder: Path) -> tuple[Actions, Tensor] | None:
    """A model folder's actions and their rows; None where it has none."""
    if not (folder / NAMES).is_file():
        return None
    try:
        actions = read_names(folder / NAMES)
        rows_AH = load_file(folder / TENSORS)[ROWS]
    except Exception as error:  # safetensors and json have errors of their own
        raise ModelError(f"{folder}: its added actions cannot be read: {error}") from error
    if rows_AH.dim() != 2 or len(rows_AH) != len(actions.names):
        raise ModelError(f"{folder}: {TENSORS} is {list(rows_AH.shape)} for the {len(actions.names)} of {NAMES}")
    return actions, rows_AH


def read_names(file: Path) -> Actions:
    """Read the actions of the rows beside a file; CodecError for what is no such file."""
    return actions_from_json(json.loads(read_bounded(Path(os.path.realpath(file)))), NAMES)


def take_actions(model: Any, folder: Path) -> None:
    """Attach a folder's rows to the model that was loaded from it."""
    stored_rows = read_actions(folder)
    if stored_rows is None:
        return
    actions, rows_AH = stored_rows
    head_VH = model.get_output_embeddings().weight
    if (actions.first, rows_AH.shape[1]) != tuple(head_VH.shape):
        raise ModelError(f"{folder}: {NAMES} and {TENSORS} are of another model")
    attach(model, actions, rows_AH.to(head_VH.dtype))


def actions_to_json(actions: Actions) -> dict[str, Any]:
    return {
        "first": actions.first,
        "actions": [{"name": n, "description": list(d)} for n, d in zip(actions.names, actions.descriptions)],
    }


def actions_from_json(value: Any, where: str) -> Actions:
    fields = record(value, where, ("first", "actions"))
    action_records = [record(each, where, ("name", "description")) for each in require_list(fields["actions"], where)]
    try:
        return Actions(
            first=natural(fields["first"], where),
            names=tuple(string(each["name"], where) for each in action_records),
            descriptions=tuple(ids(each["description"], where) for each in action_records),
        )
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"{where}: {error}") from error
