"""What a chat template writes around messages, whatever the messages say."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from rlx.model.chat import find_marks
from rlx.model.load import SHIPPED
from rlx.model.problem import ModelError

PLAIN = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}<|agent|>"
NAMED = (
    "{% if messages[0]['role'] != 'system' %}<|system|>be kind<|end|>{% endif %}"
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}<|assistant|>"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + PLAIN
SPECIAL = ["<|user|>", "<|agent|>", "<|assistant|>", "<|system|>"]


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
            },
        ),
        (
            NO_SYSTEM,
            {
                ("", "user"): "<|user|>",
                ("user", "assistant"): "<|end|><|agent|>",
                ("assistant", "user"): "<|end|><|user|>",
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
    with pytest.raises(ModelError, match=r"set model\.chat=false$"):
        find_marks(tokenizer_with(template))
