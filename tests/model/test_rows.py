"""Initial rows of actions whose descriptions have several tokens, on the embedded model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlx.model.ground import Ground
from rlx.model.load import Added, Model, load_base, load_tokenizer
from rlx.model.rows import RIDGE, Reader, Way, fit_rows, rests_of, ridge
from rlx.run.grounds import grounds_of
from rlx.run.trainee import added_in

Build = Callable[..., Any]
NANO = Model(path="nano")
OTHER = ("env=", "env.", "algo=")
ENVS = {"calc": "env=calc_bench_small", "sorting": "env=sorting/sort3"}


def load(added: Added | None = None) -> Any:
    return load_base(NANO, dtype="float32", attention="sdpa", **({} if added is None else {"added": added}))


@pytest.fixture(scope="module")
def run_of(small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    def build(env: str, *words: str) -> Any:
        return small_run(tmp_path_factory.mktemp("rows"), ENVS[env], "algo=earl", *words, without=OTHER)

    return build


def test_the_fit_is_a_ridge_regression() -> None:
    hidden = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    rest = torch.tensor([-3.0, -4.0], dtype=torch.float64)
    # moments: diag(1/2, 2); their mean 5/4; right side: (-3/2, -4)
    expected = [-1.5 / (0.5 + RIDGE * 1.25), -4.0 / (2.0 + RIDGE * 1.25)]
    assert ridge(hidden, rest).tolist() == pytest.approx(expected, abs=1e-12)


PROMPTS = ((50, 60, 70), (7, 8, 9, 10, 11, 12, 13), (100,))
LONGER = {"a": (221, 1338), "b": (221, 1336, 40), "c": (30, 31), "d": (5,)}


def plain_log_probs(model: Any, context: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Return the log-prob of each of `ids`, by one pass without cache or padding."""
    with torch.no_grad():
        logp = model(torch.tensor([[*context, *ids]])).logits[0, len(context) - 1 : -1].log_softmax(-1)
    found: list[float] = logp.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
    return found


def test_what_follows_a_first_token_is_read_side_by_side_and_forgotten() -> None:
    model = load()
    reader = Reader(model)
    with torch.no_grad():
        before = reader.begin(PROMPTS)
        rests = rests_of(reader, LONGER)
        assert reader.mask.shape[1] == max(map(len, PROMPTS))
        after = reader.go_on([14, 14, 14])
    for row, prompt in enumerate(PROMPTS):
        for name in ("a", "b", "c"):
            expected = sum(plain_log_probs(model, prompt, LONGER[name])[1:])
            assert float(rests[name][row]) == pytest.approx(expected, abs=1e-3)
        with torch.no_grad():
            states = model.model(torch.tensor([[*prompt, 14]])).last_hidden_state[0]
        torch.testing.assert_close(before[row], states[-2], atol=1e-4, rtol=0)
        torch.testing.assert_close(after[row], states[-1], atol=1e-4, rtol=0)
    assert set(rests) == {"a", "b", "c"}


def test_a_way_leads_from_the_model_s_own_text_along_its_path() -> None:
    routes, letters = frozenset({"go"}), frozenset({"A", "B"})
    ground = Ground(prompt=(1,), routes=routes, path=(5, 6, 7), choices=(routes, frozenset(), letters))
    way = Way(ground, 2)
    seen = [way.may]
    ids = []
    for drawn in (40, 41, 42, 43, 44, 45):
        ids.append(way.go_on(drawn, ends=(0,)))
        seen.append(way.may)
    assert ids[:5] == [40, 41, 5, 6, 7]
    assert seen[:6] == [routes, routes, routes, frozenset(), letters, frozenset()]
    assert way.is_over
    early = Way(ground, 2)
    assert early.go_on(0, ends=(0,)) == 5, "the text ends where the model ends it"


@pytest.mark.parametrize("initial", ["description", "word", "first"])
def test_a_description_of_one_token_has_that_token_s_row(initial: Any) -> None:
    wanted = {"calculate": (1338,), "gap": (1336, 221), "sum": (435,)}
    added = Added(descriptions=wanted, blanks=frozenset({221}), initial=dict.fromkeys(wanted, initial), grounds=refuse)
    model = load(added)
    assert model.action_rows.equal(model.get_output_embeddings().weight[[1338, 1336, 435]])


def refuse() -> Any:
    raise AssertionError("nothing is to be fitted")


def test_rows_of_words_are_chosen_by_name(run_of: Any) -> None:
    tokenizer = load_tokenizer(NANO)
    added = added_in(run_of("sorting", "protocol.rows=word"), tokenizer)
    head = load().get_output_embeddings().weight
    words = {name: [one for one in ids if one not in added.blanks] for name, ids in added.descriptions.items()}
    model = load(replace(added, grounds=refuse))
    assert model.action_rows.equal(head[[ids[0] for ids in words.values()]])
    assert set(added_in(run_of("sorting"), tokenizer).initial.values()) == {"description"}


@pytest.fixture(scope="module", params=ENVS)
def fitted(request: pytest.FixtureRequest, run_of: Any) -> tuple[Any, Added, Any]:
    run = run_of(request.param)
    added = added_in(run, load_tokenizer(NANO))
    return run, added, load(added)


def held_out(run: Any, added: Added, model: Any) -> Iterator[list[int]]:
    """Yield contexts of test tasks, after which the model itself goes on greedily but for its first token."""
    tokenizer = load_tokenizer(NANO)
    test = replace(run, env=Swapped(run.env), seed=1)
    for number, ground in enumerate(grounds_of(test, tokenizer, added.descriptions)[:40]):
        ids = [*ground.prompt, 200 + number]
        for _ in range(8):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids])).logits[0, -1, 1:].argmax()) + 1)
            yield list(ids)


class Swapped:
    """An environment whose training tasks are the test's."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def tasks(self, split: str, seed: int) -> Any:
        return self.env.tasks("test", seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def test_a_route_is_about_as_likely_as_all_tokens_of_its_description_in_contexts_that_were_not_fitted(
    fitted: tuple[Any, Added, Any],
) -> None:
    """Within 2.5 nats on average and 4 in the mean of absolute values, where its word alone is off by more than 5."""
    run, added, model = fitted
    names = list(added.descriptions)
    head, rows = model.get_output_embeddings().weight.detach(), model.action_rows.detach()
    contexts = list(held_out(run, added, model))
    for name in {"calc": ["calculate"], "sorting": ["compare", "swap"]}["calc" if "calculate" in names else "sorting"]:
        ids = added.descriptions[name][:2]
        errors: dict[str, list[float]] = {"fitted": [], "word": []}
        for context in contexts:
            wanted = sum(plain_log_probs(model, context, ids))
            with torch.no_grad():
                hidden = model.model(torch.tensor([context])).last_hidden_state[0, -1]
            for kind, row in (("fitted", rows[names.index(name)]), ("word", head[ids[1]])):
                errors[kind].append(float(log_prob(hidden, head, row)) - wanted)
        mean, size = (sum(errors["fitted"]) / len(contexts), sum(map(abs, errors["fitted"])) / len(contexts))
        assert abs(mean) < 2.5
        assert size < 4
        assert sum(map(abs, errors["word"])) / len(contexts) > 5


def log_prob(hidden: Tensor, head: Tensor, row: Tensor) -> Tensor:
    """Return the log-prob of an action beside the vocabulary."""
    return torch.cat((head @ hidden, (row @ hidden)[None])).log_softmax(-1)[-1]


def test_the_same_seed_gives_the_same_bits_and_the_test_split_is_not_read(fitted: tuple[Any, Added, Any]) -> None:
    run, _, model = fitted
    tokenizer = load_tokenizer(NANO)
    asked: list[str] = []

    class Listening(Swapped):
        def tasks(self, split: str, seed: int) -> Any:
            asked.append(split)
            return self.env.tasks(split, seed)

    again = load(added_in(replace(run, env=Listening(run.env)), tokenizer))
    assert again.action_rows.equal(model.action_rows)
    assert set(asked) == {"train"}
    other = load(added_in(replace(run, seed=run.seed + 1), tokenizer))
    assert not other.action_rows.equal(model.action_rows)


def test_a_model_that_has_its_rows_is_not_fitted_again(fitted: tuple[Any, Added, Any], tmp_path: Path) -> None:
    from rlx.learner.state import write_model

    _, added, model = fitted
    write_model(tmp_path, model, model.named_parameters())
    for file in Path(model.config._name_or_path).glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    again = load_base(
        Model(path=str(tmp_path)), dtype="float32", attention="sdpa", added=replace(added, grounds=refuse)
    )
    assert again.action_rows.equal(model.action_rows)


def test_a_path_goes_where_buttons_lead(run_of: Any) -> None:
    run = run_of("sorting")
    tokenizer = load_tokenizer(NANO)
    descriptions = added_in(run, tokenizer).descriptions
    grounds = grounds_of(run, tokenizer, descriptions)
    letters = frozenset({" A", " B", " C"})
    verbs = frozenset({"compare", "swap"})
    for ground in islice(grounds, 20):
        assert ground.routes == verbs
        text = tokenizer.decode(ground.path).split()
        assert text[0] in verbs
        assert len(set(text[1:])) == 2
        first, second = ground.choices[2], ground.choices[4]
        assert ground.choices[0] == verbs
        assert ground.choices[1] == ground.choices[3] == frozenset()
        assert letters <= first
        assert second == first - {f" {text[1]}"}
    assert fit_rows(load(), {"swap": descriptions["swap"]}, grounds[:2], 0)["swap"].isfinite().all()
