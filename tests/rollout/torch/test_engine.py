from __future__ import annotations

import itertools
import math
import random

import pytest
import torch

from rlx.protocol.automaton import Automaton, State
from rlx.rollout.engine import Counts, Engine
from rlx.rollout.sampling import uniforms
from tests.errors import raises_naming


def spell(kit, *pieces: str) -> Automaton:
    """Forces exactly these tokens, then any."""
    ids = [kit.word(piece) if piece in kit.words else ord(piece) - 33 for piece in pieces]
    forced = (State(allowed=frozenset({i}), moves={i: state + 1}) for state, i in enumerate(ids))
    return Automaton(states=(*forced, State(allowed=frozenset(range(261)))))


def test_it_is_an_engine(qwen2, tokenizer, kit):
    engine: Engine = kit.engine(qwen2, tokenizer)
    assert (engine.tick, engine.counts) == (0, Counts())
    assert engine.step() == []
    assert engine.tick == 1


def test_greedy_tokens_and_logprobs_equal_transformers(model, tokenizer, device, kit):
    engine = kit.engine(model, tokenizer, device=device)
    prompts = {session: kit.ids(session, length) for session, length in enumerate((3, 17, 9, 30))}
    done = kit.finish(engine, *(kit.ask(s, p, temperature=0, max_new_tokens=12) for s, p in prompts.items()))
    for session, prompt in prompts.items():
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            expected = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, pad_token_id=0
            )
        assert list(done[session].token_ids) == expected[0, len(prompt) :].tolist()
        truth = kit.logprobs(model, prompt, done[session]).tolist()
        assert done[session].logprobs == pytest.approx(truth, abs=1e-4 if device.type == "cpu" else 1e-2)


def test_sampled_tokens_are_the_inverse_cdf_at_the_stream_numbers(qwen2, tokenizer, kit):
    prompt = kit.ids(0, 10)
    completion = kit.finish(kit.engine(qwen2, tokenizer), kit.ask(0, prompt, stream=2**63 + 11))[0]
    with torch.inference_mode():
        logits = qwen2(torch.tensor([[*prompt, *completion.token_ids]])).logits[0, len(prompt) - 1 : -1]
    cumulative = torch.softmax(logits.double(), -1).cumsum(-1)
    for token, row, u in zip(completion.token_ids, cumulative, uniforms(2**63 + 11, 0, 8)):
        assert row[token] > u - 1e-5
        assert token == 0 or row[token - 1] < u + 1e-5


def play_sessions(engine, kit, seed: int, num_sessions: int, num_turns: int, **options):
    """Multi-turn sessions with tools that answer after a few ticks; (prompt, completion) of every turn by session."""
    rng = random.Random(seed)
    observations = {(s, t): kit.ids(seed * 1000 + s * 10 + t, rng.randint(1, 9)) for s in range(9) for t in range(9)}
    delays = {key: rng.randint(0, 4) for key in observations}
    prompts = {session: kit.ids(seed * 100 + session // 3, 12) for session in range(num_sessions)}
    turns: dict[int, list] = {session: [] for session in prompts}
    due: list[tuple[int, int]] = []

    def send(session: int) -> None:
        stream = session * 100 + len(turns[session])
        engine.add(kit.ask(session, prompts[session], stream=stream, **options))

    for session in prompts:
        send(session)
    while any(len(done) < num_turns for done in turns.values()):
        for request, completion in engine.step():
            session, turn = request.session, len(turns[request.session])
            turns[session].append((request.prompt_ids, completion))
            if turn + 1 == num_turns:
                engine.release(session)
                continue
            prompts[session] = [*request.prompt_ids, *completion.token_ids, *observations[session, turn]]
            due.append((engine.tick + delays[session, turn], session))
        for item in sorted(due):
            if item[0] <= engine.tick:
                due.remove(item)
                send(item[1])
    return turns


def test_logprobs_in_parked_and_resumed_sessions_equal_transformers(model, tokenizer, kit):
    engine = kit.engine(model, tokenizer, num_slots=3)
    turns = play_sessions(engine, kit, 1, num_sessions=8, num_turns=4, max_new_tokens=6, stops=("a", "b", "7"))
    for done in turns.values():
        for prompt, completion in done:
            truth = kit.logprobs(model, prompt, completion).tolist()
            assert completion.logprobs == pytest.approx(truth, abs=1e-4)


def test_contexts_are_prefilled_once(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, num_slots=3)
    turns = play_sessions(engine, kit, 2, num_sessions=6, num_turns=3, max_new_tokens=5)
    counts, first = engine.counts, 12
    later = [(a, b) for done in turns.values() for a, b in itertools.pairwise(done)]
    new = sum(len(b[0]) - len(a[0]) - len(a[1].token_ids) + 1 for a, b in later)
    assert (
        counts.num_prefilled == 2 * first + new
    )  # two groups of three share a prompt; a turn's last token is uncached
    assert counts.num_shared == 4 * first
    assert counts.num_reused == sum(len(a[0]) + len(a[1].token_ids) - 1 for a, _ in later)
    assert counts.num_sampled == sum(len(c.token_ids) for done in turns.values() for _, c in done)


def test_the_same_calls_give_the_same_bits(qwen2, tokenizer, kit):
    options = {"num_sessions": 7, "num_turns": 3, "temperature": 0.8, "top_p": 0.9}
    first, second = (play_sessions(kit.engine(qwen2, tokenizer, num_slots=4), kit, 3, **options) for _ in range(2))
    assert first == second


def test_a_used_engine_after_load_gives_the_bits_of_a_new_one(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer)
    play_sessions(engine, kit, 4, num_sessions=5, num_turns=2)
    engine.load(qwen2.state_dict(), 0)
    again = play_sessions(engine, kit, 5, num_sessions=5, num_turns=2, max_new_tokens=40)
    assert again == play_sessions(kit.engine(qwen2, tokenizer), kit, 5, num_sessions=5, num_turns=2, max_new_tokens=40)


def test_a_stream_gives_its_tokens_whoever_its_neighbours_are(qwen2, tokenizer, kit):
    requests = [kit.ask(s, kit.ids(s % 3, 5 + 2 * (s % 3)), top_k=20 * (s % 2)) for s in range(9)]
    together = kit.finish(kit.engine(qwen2, tokenizer, num_slots=9), *requests)
    backwards = kit.finish(kit.engine(qwen2, tokenizer, num_slots=2), *reversed(requests))
    for request in requests:
        alone = kit.finish(kit.engine(qwen2, tokenizer), request)[request.session]
        for other in (together[request.session], backwards[request.session]):
            assert other.token_ids == alone.token_ids
            assert other.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_a_group_prompt_is_prefilled_once_over_admissions(qwen2, tokenizer, kit):
    engine, prompt = kit.engine(qwen2, tokenizer, num_slots=3), kit.ids(1, 20)
    done = kit.finish(engine, *(kit.ask(s, prompt, max_new_tokens=3 + s) for s in range(8)))
    assert (engine.counts.num_prefilled, engine.counts.num_shared) == (20, 7 * 20)
    for session, completion in done.items():
        assert len(completion.token_ids) == 3 + session
        assert completion.logprobs == pytest.approx(kit.logprobs(qwen2, prompt, completion).tolist(), abs=1e-4)
    assert len({completion.token_ids[:3] for completion in done.values()}) > 1


def test_admission_is_first_come_first_served_with_slots_refilled(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, num_slots=2)
    lengths = [2, 5, 1, 1, 4]
    for session, length in enumerate(lengths):
        engine.add(kit.ask(session, [session + 1], max_new_tokens=length))
    ends = {}
    while len(ends) < 5:
        for request, _ in engine.step():
            ends[request.session] = engine.tick
    assert ends == {0: 2, 1: 5, 2: 3, 3: 4, 4: 8}


def test_results_come_in_the_order_of_add(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, num_slots=4)
    for session, length in ((5, 30), (3, 4), (9, 12), (1, 4)):
        engine.add(kit.ask(session, kit.ids(session, length), max_new_tokens=1))
    assert [request.session for request, _ in engine.step()] == [5, 3, 9, 1]


def test_a_rewritten_prompt_reuses_only_what_it_shares(qwen2, tokenizer, kit):
    engine, prompt = kit.engine(qwen2, tokenizer), kit.ids(1, 20)
    kit.finish(engine, kit.ask(0, prompt))
    rewritten = [*prompt[:7], 5 + (prompt[7] == 5), *kit.ids(2, 6)]
    completion = kit.finish(engine, kit.ask(0, rewritten))[0]
    assert engine.counts.num_reused == 7
    assert completion.logprobs == pytest.approx(kit.logprobs(qwen2, rewritten, completion).tolist(), abs=1e-4)


def test_the_very_same_prompt_again_recomputes_its_last_token(qwen2, tokenizer, kit):
    engine, prompt = kit.engine(qwen2, tokenizer), kit.ids(1, 20)
    first = kit.finish(engine, kit.ask(0, prompt))[0]
    again = kit.finish(engine, kit.ask(0, prompt))[0]
    assert engine.counts.num_reused == 19
    assert again.token_ids == first.token_ids


def test_release_forgets_a_session(qwen2, tokenizer, kit):
    engine, prompt = kit.engine(qwen2, tokenizer), kit.ids(1, 10)
    done = kit.finish(engine, kit.ask(0, prompt))[0]
    engine.step()
    engine.release(0)
    engine.release(77)
    kit.finish(engine, kit.ask(0, [*prompt, *done.token_ids, 3]))
    assert engine.counts.num_reused == 0


def test_release_cancels_requests_under_way(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, num_slots=1)
    for session in range(3):
        engine.add(kit.ask(session, [session + 1]))
    engine.step()
    engine.release(0)
    engine.release(1)
    finished = [request.session for _ in range(12) for request, _ in engine.step()]
    assert finished == [2]
    assert kit.finish(engine, kit.ask(0, [1]))[0].stop == "length"


def test_load_swaps_the_policy_and_forgets_caches(qwen2, tokenizer, kit):
    other = kit.small_qwen2()
    with torch.no_grad():
        other.model.layers[0].mlp.down_proj.weight.mul_(-3)
    engine, prompt = kit.engine(qwen2, tokenizer, version=4), kit.ids(1, 10)
    before = kit.finish(engine, kit.ask(0, prompt), kit.ask(1, prompt))[0]
    engine.load(other.state_dict(), 5)
    longer = [*prompt, *before.token_ids, 9]
    after = kit.finish(engine, kit.ask(0, longer), kit.ask(2, prompt))
    assert (before.version, after[0].version) == (4, 5)
    assert engine.counts.num_reused == 0
    for session, context in ((0, longer), (2, prompt)):
        truth = kit.logprobs(other, context, after[session]).tolist()
        assert after[session].logprobs == pytest.approx(truth, abs=1e-4)
        assert truth != pytest.approx(kit.logprobs(qwen2, context, after[session]).tolist(), abs=1e-2)


def test_load_waits_for_requests_being_decoded(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer)
    engine.add(kit.ask(0, [1]))
    engine.step()
    with raises_naming(ValueError, "being decoded"):
        engine.load(qwen2.state_dict(), 1)
    engine.release(0)
    engine.load(qwen2.state_dict(), 1)


@pytest.mark.parametrize(
    ("pieces", "num_kept"),
    [
        (("x", "</answer>", "y"), 2),
        (("</", "answer", ">", "y"), 3),
        (("<", "/", "a", "n", "s", "w", "e", "r", ">", "y"), 9),
        (("<", "/", "a", "n", "s", "wer>\n", "y"), 6),
        (("a</answer>b", "y"), 1),
        (("</", "</", "answer", "x", "</answer>"), 5),
    ],
)
def test_stop_strings_end_a_completion_however_they_are_cut(qwen2, tokenizer, kit, pieces, num_kept):
    request = kit.ask(0, [1], state=0, stops=("</python>", "</answer>"), max_new_tokens=12)
    completion = kit.finish(kit.engine(qwen2, tokenizer, automaton=spell(kit, *pieces)), request)[0]
    assert (completion.stop, len(completion.token_ids)) == ("stop", num_kept)
    assert "</answer>" in tokenizer.decode(completion.token_ids)


def test_a_stop_string_in_the_prompt_does_not_count(qwen2, tokenizer, kit):
    request = kit.ask(0, [kit.word("</"), kit.word("answer")], state=0, stops=("</answer>",))
    assert len(kit.finish(kit.engine(qwen2, tokenizer, automaton=spell(kit, ">", "x")), request)[0].token_ids) > 1


def test_eos_ends_and_is_kept(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, eos_ids=(40, 41), automaton=spell(kit, "x", chr(41 + 33), "y"))
    completion = kit.finish(engine, kit.ask(0, [1], state=0))[0]
    assert (completion.stop, len(completion.token_ids), completion.token_ids[-1]) == ("eos", 2, 41)


def test_limits_of_tokens_and_of_context(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, num_slots=8)
    done = kit.finish(
        engine,
        kit.ask(0, [1] * 10, max_new_tokens=5, max_context=16),
        kit.ask(1, [1] * 10, max_new_tokens=5, max_context=13),
        kit.ask(2, [1] * 10, max_new_tokens=5, max_context=10),
    )
    assert [(len(done[s].token_ids), done[s].stop) for s in range(3)] == [(5, "length"), (3, "context"), (0, "context")]
    assert kit.finish(engine, kit.ask(2, [1]))[2].stop == "length"


@pytest.mark.parametrize(
    ("prompt", "options", "names"),
    [
        ([], {}, ["session 7:", "empty"]),
        ([280], {}, ["session 7:", "vocabulary"]),
        ([-1], {}, ["session 7:", "vocabulary"]),
        ([1], {"stops": ("",)}, ["stops:", "empty"]),
    ],
)
def test_requests_that_cannot_be_sampled_are_refused(qwen2, tokenizer, kit, prompt, options, names):
    engine = kit.engine(qwen2, tokenizer)
    with raises_naming(ValueError, *names):
        engine.add(kit.ask(7, prompt, **options))
    assert kit.finish(engine, kit.ask(7, [1]))[7].stop == "length"


def test_one_request_of_a_session_at_a_time(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer)
    engine.add(kit.ask(0, [1]))
    with raises_naming(ValueError, "session 0", "under way"):
        engine.add(kit.ask(0, [1]))
    engine.step()
    with raises_naming(ValueError, "session 0", "under way"):
        engine.add(kit.ask(0, [1]))


def test_broken_weights_are_told_and_leave_nothing_behind(qwen2, tokenizer, kit):
    broken = {**qwen2.state_dict(), "model.norm.weight": torch.full((48,), math.nan)}
    engine, prompt = kit.engine(qwen2, tokenizer), kit.ids(1, 10)
    engine.load(broken, 3)
    engine.add(kit.ask(0, prompt))
    with raises_naming(FloatingPointError, "session 0:", "version 3", "not finite"):
        engine.step()
    engine.release(0)
    engine.load(qwen2.state_dict(), 4)
    assert kit.finish(engine, kit.ask(0, prompt)) == kit.finish(
        kit.engine(qwen2, tokenizer, version=4), kit.ask(0, prompt)
    )


def test_long_completions_draw_all_their_random_numbers(qwen2, tokenizer, kit):
    request = kit.ask(0, [1], max_new_tokens=150)
    completion = kit.finish(kit.engine(qwen2, tokenizer), request)[0]
    assert len(completion.token_ids) == 150
    assert completion.logprobs == pytest.approx(kit.logprobs(qwen2, [1], completion).tolist(), abs=1e-4)
