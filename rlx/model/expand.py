"""Output rows of actions beyond the vocabulary: a parameter of the model, `action_rows`, and what its rows are for.

Yue et al. 2025, "Expanding the Action Space of LLMs to Reason Beyond Language"

The rows are no part of the head, which may be the input embedding too: they are joined to it where log-probs are
computed. Action i starts as its description's output rows,

    description:  w_i.h ~ W[d_1].h + log p(d_2 ... d_n | h, d_1)        fitted (rlx.model.rows)
    word:         w_i = mean of W[d_1], ..., W[d_n]
    first:        w_i = W[d_1]                                          as released

so that one of a single token is, at first, exactly as likely as that token, by any. A blank at a description's end is
none of d: it parts an action from what is chosen next. By `word` and `first` no blank that is a token of its own is:
actions that begin with one would begin alike. Most vocabularies have words with their blanks, as " compare". Inputs
need no rows: a context holds descriptions. On disk they are two files in the model's folder, which is a plain Hugging
Face folder beside them: `actions.json` says what the rows of `actions.safetensors` are.

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
    """Give a model a row for each wanted action, by name its description's ids, that it has none for; its rows and
    their ids stay as they are. `fitted` has the rows of descriptions of several tokens. ModelError where it knows an
    action by another description."""
    known = actions_of(model)
    head_VH = model.get_output_embeddings().weight.detach()
    actions = widen(known, wanted, len(head_VH))
    old = 0 if known is None else len(known.names)
    new = [
        fitted[name] if name in fitted else first_row(head_VH, telling(ids, blanks), initial.get(name, "word"))
        for name, ids in zip(actions.names[old:], actions.descriptions[old:])
    ]
    if new:
        attach(model, actions, torch.stack(new) if known is None else torch.cat((model.action_rows, torch.stack(new))))
    return actions


def widen(known: Actions | None, wanted: Mapping[str, tuple[int, ...]], first: int) -> Actions:
    """A model's actions and those wanted that are none of them, with ids from `first` on; ModelError for another
    description."""
    old = {} if known is None else dict(zip(known.names, known.descriptions))
    changed = [name for name, ids in wanted.items() if old.get(name, ids) != ids]
    if changed:
        raise ModelError(f"action {changed[0]!r} has another description than the model was trained with; rename it")
    whole = old | {name: ids for name, ids in wanted.items() if name not in old}
    return Actions(first=first, names=tuple(whole), descriptions=tuple(whole.values()))


def telling(description: tuple[int, ...], blanks: Collection[int]) -> tuple[int, ...]:
    """A description without blanks, or all of it where it has nothing else."""
    return tuple(one for one in description if one not in blanks) or description


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
    found = read_actions(folder)
    if found is None:
        return
    actions, rows_AH = found
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
    told = [record(each, where, ("name", "description")) for each in require_list(fields["actions"], where)]
    try:
        return Actions(
            first=natural(fields["first"], where),
            names=tuple(string(each["name"], where) for each in told),
            descriptions=tuple(ids(each["description"], where) for each in told),
        )
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"{where}: {error}") from error
