"""What a chat template writes around messages, whatever the messages say."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from rlx.model.chat import end_of_turn, find_marks
from rlx.model.load import SHIPPED
from rlx.model.problem import ModelError
from rlx.model.rendering import render
from rlx.protocol.boxed import Boxed
from rlx.protocol.final_answer import FinalAnswer
from rlx.rollout.speech import speech_of
from rlx.types import Action, Completion, Task, Text, Turn, Verb
from tests.errors import raises_naming
from tests.loops import for_each

PLAIN = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}<|agent|>"
NAMED = (
    "{% if messages[0]['role'] != 'system' %}<|system|>be kind<|end|>{% endif %}"
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}<|assistant|>"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + PLAIN
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
SPECIAL = ["<|user|>", "<|agent|>", "<|assistant|>", "<|system|>", "<|im_start|>", "<|im_end|>"]


def tokenizer_with(template: str) -> PreTrainedTokenizerFast:
    texts = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=texts, eos_token="<|end|>", pad_token="<|end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            NAMED,
            {
                ("", "user"): "<|system|>be kind<|end|><|user|>",
                ("user", "assistant"): "<|end|>\n<|assistant|>",
                ("assistant", "user"): "<|end|>\n<|user|>",
                ("", "system"): "<|system|>",
                ("system", "user"): "<|end|>\n<|user|>",
                ("assistant", ""): "<|end|>\n<|assistant|>",
            },
        ),
        (
            NO_SYSTEM,
            {
                ("", "user"): "<|user|>",
                ("user", "assistant"): "<|end|><|agent|>",
                ("assistant", "user"): "<|end|><|user|>",
                ("assistant", ""): "<|end|><|agent|>",
            },
        ),
    ],
)
def test_marks_are_what_the_template_writes_between_messages(
    template: str, expected: dict[tuple[str, str], str]
) -> None:
    tokenizer = tokenizer_with(template)
    assert {roles: tokenizer.decode(ids) for roles, ids in find_marks(tokenizer).items()} == expected


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "hello", "{{ messages[0]['content'] }}"])
def test_a_template_that_does_not_show_every_message_is_refused_in_one_line(template: str) -> None:
    with raises_naming(ModelError, "chat template", "model.chat=false"):
        find_marks(tokenizer_with(template))


NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
HUGE = "{% set s = namespace(t='x' * 65536) %}{% for a in range(40) %}{% set s.t = s.t ~ s.t %}{% endfor %}"


@for_each(
    "template",
    [
        NESTED + PLAIN,
        "{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}" + PLAIN,
        HUGE + PLAIN,
        "{{ 'x' * 10**11 }}" + PLAIN,
        "{{ '%01000000000d' % 1 }}" + PLAIN,
        "{{ 'x' * 200000 }}" + PLAIN,
        "{% if messages[0]['role'] == 'system' %}" + NESTED + "{% endif %}" + PLAIN,
    ],
)
def test_a_template_without_end_is_refused_within_its_limits(template: str) -> None:
    with raises_naming(ModelError, "5 s", "512 MB", "model.chat=false"):
        find_marks(tokenizer_with(template))


def test_a_template_that_tells_the_date_tells_the_same_every_day() -> None:
    """That of Llama 3 has today's date in its system message."""
    asks = "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    dated = asks + "{{ date_string }}"
    tokenizer = tokenizer_with(dated + PLAIN)
    (text,) = render(tokenizer, [[{"role": "user", "content": "hello"}]])
    assert text == "26 Jul 2024<|user|>hello<|end|><|agent|>"


def test_a_template_is_rendered_in_another_process_as_transformers_renders_it() -> None:
    tokenizer = tokenizer_with("{{ bos_token }}{{ eos_token }}" + TOOLS)
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "é\n{{ 1 }}"}]
    own = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert render(tokenizer, [messages]) == [own]
    assert "<|end|>" in own


TOOLS = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}<|user|>tool says {{ m['content'] }}<|end|>"
    "{% else %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endif %}{% endfor %}<|assistant|>"
)


def test_a_tool_has_its_own_message_where_the_template_speaks_of_tools() -> None:
    tokenizer = tokenizer_with(TOOLS)
    marks = {roles: tokenizer.decode(ids) for roles, ids in find_marks(tokenizer).items() if "tool" in roles}
    assert marks == {
        ("assistant", "tool"): "<|end|><|user|>tool says ",
        ("tool", "user"): "<|end|><|user|>",
        ("tool", "assistant"): "<|end|><|assistant|>",
    }
    picky = TOOLS.replace("tool says ", "{{ raise_exception('no id') }}")
    assert not any("tool" in roles for roles in find_marks(tokenizer_with(picky)))


@for_each(
    "template, eos_ids, end",
    [
        (NAMED, (0,), "<|end|>"),
        (NAMED.replace("<|end|>", "<|system|>"), (0,), "<|system|>"),  # special, though no setting names it
        (NAMED.replace("<|end|>", "\n"), (0,), "<|end|>"),
        (NAMED.replace("<|end|>", " <|end|>"), (), "<|end|>"),
    ],
)
def test_a_turn_ends_as_the_template_ends_it_or_with_the_end_of_sequence(
    template: str, eos_ids: tuple[int, ...], end: str
) -> None:
    tokenizer = tokenizer_with(template)
    found = end_of_turn(tokenizer, find_marks(tokenizer), eos_ids)
    assert found == tokenizer.convert_tokens_to_ids(end)
    assert end_of_turn(tokenizer, {}, (5, 0)) == tokenizer.eos_token_id
    assert end_of_turn(tokenizer, {}, (5,)) == 5


HARMONY = (
    "{% for m in messages %}<|agent|>{{ m['role'] }}<|user|>{{ m['content'] }}"
    "{% if loop.last and m['role'] == 'assistant' and not add_generation_prompt %}<|system|>"
    "{% else %}<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|agent|>assistant{% endif %}"
)


def test_the_end_of_a_message_is_no_end_of_a_turn_where_the_last_message_ends_otherwise() -> None:
    """Messages of gpt-oss end with one token, and turns with another: here <|im_end|> and <|system|>."""
    tokenizer = tokenizer_with(HARMONY)
    marks = find_marks(tokenizer)
    assert tokenizer.decode(marks["assistant", "user"]) == "<|im_end|><|agent|>user<|user|>"
    returns = tokenizer.convert_tokens_to_ids("<|system|>")
    assert end_of_turn(tokenizer, marks, (returns, 0)) == returns


@pytest.mark.parametrize(("template", "is_merged"), [(CHATML, False), (NO_SYSTEM.removesuffix(PLAIN) + CHATML, True)])
def test_a_sanitised_chat_is_what_the_template_makes_of_its_messages(template: str, is_merged: bool) -> None:
    """A system message, a turn as it was sampled, and one that a fixed text stands in place of."""
    tokenizer = tokenizer_with(template)
    verbs = (Verb(name="turn_left", description="turn left", phrase="turn left"),)
    form = FinalAnswer(instruction="Reach {goal}:\n{actions}", sanitise=True, stops_at=(), correction="No.")
    speech = speech_of(form.bind((), verbs), tokenizer, chat=True)
    task = Task(id="t", prompt=(Text("unused"),), data={"goal": "the <|end|>"})
    past: list[Turn] = []
    for text in ("Far. final answer: turn left", "nonsense"):
        ids = (*speech.encode(text[:3]), *speech.encode(text[3:]), speech.end or 0)  # other tokens than the text's own
        done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="eos")
        turn = Turn(prompt_ids=(), completion=done, action=speech.hear(done), observation=(Text("seen"),))
        past.append(turn)
    assert [turn.is_invalid for turn in past] == [False, True]
    context = speech.context(task, (Text("view"),), past)
    sampled = past[0].completion.token_ids
    assert any(context[at : at + len(sampled)] == sampled for at in range(len(context)))
    system, user = "Reach the <|end|>:\n- turn left\n", "view\n"
    told = [("user", system + user)] if is_merged else [("system", system), ("user", user)]
    told += [("assistant", "Far. final answer: turn left"), ("user", "seen\n")]
    told += [("assistant", "Generated invalid action"), ("user", "No.\n")]
    (expected,) = render(tokenizer, [[{"role": role, "content": text} for role, text in told]])
    assert tokenizer.decode(context) == expected


def test_gems_prompt_has_the_tokens_of_its_text() -> None:
    """The template `qwen3_game` of GEM's scripts, after a turn, in Qwen's chat: token by token."""
    tokenizer = tokenizer_with(CHATML)
    dialect = Boxed(agent_turns=False, prompt_template="qwen3_game").bind(
        (), (Verb(name="g", description="", argument="number"),)
    )
    task = Task(id="t", prompt=(Text("Guess the number that I think of."),), data={})
    done = Completion(token_ids=(5, 6), logprobs=(0.0, 0.0), stop="stop")
    seen = Turn(
        prompt_ids=(), completion=done, action=Action(kind="act", text="25"), observation=(Text("lower than 25"),)
    )
    speech = speech_of(dialect, tokenizer, chat=True)
    prompt = (
        "<|im_start|>user\nYou are playing language games. Make valid actions to win.\nObservation: Put your number in "
        "\\boxed{}.\nGuess the number that I think of.\n\nlower than 25\nPlease reason step by step, and put your "
        "final answer within \\boxed{}.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert list(speech.context(task, (), [seen])) == tokenizer.encode(prompt, add_special_tokens=False)
