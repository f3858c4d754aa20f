"""Tiny random models and a byte-level tokenizer whose ids say what they spell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rlx.environment import Episode
from rlx.protocol.history import History
from rlx.rollout.speech import Speech
from rlx.rollout.torch.engine import TorchEngine
from rlx.types import Action, Completion, Request, Sampling, Stop, Task, Text

WORDS = ("</", "answer", "</answer>", "wer>\n", "a</answer>b")
"""Pieces after the 256 bytes."""


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    alphabet = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(list(WORDS))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def randomize(kind: Any, config: Any) -> Any:
    """A model whose weights are large enough that logits differ, norms and biases not trivial; the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = kind(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape) * 0.05)
    model.generation_config.eos_token_id = None
    return model.eval()


def small_qwen2(**changes: Any) -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": 280,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    }
    return randomize(Qwen2ForCausalLM, Qwen2Config(**sizes | changes))


def small_qwen3() -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": 280,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "tie_word_embeddings": True,
    }
    return randomize(Qwen3ForCausalLM, Qwen3Config(**sizes))


def small_llama(**changes: Any) -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": 280,
        "hidden_size": 40,
        "intermediate_size": 72,
        "num_hidden_layers": 2,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "tie_word_embeddings": False,
    }
    return randomize(LlamaForCausalLM, LlamaConfig(**sizes | changes))


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@pytest.fixture(scope="session")
def qwen2() -> Any:
    return small_qwen2()


@pytest.fixture(scope="session", params=["qwen2", "qwen3", "llama", "llama3"])
def model(request: pytest.FixtureRequest, qwen2: Any) -> Any:
    if request.param == "qwen2":
        return qwen2
    if request.param == "qwen3":
        return small_qwen3()
    return small_llama(rope_parameters=LLAMA3) if request.param == "llama3" else small_llama()


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    return torch.device(request.param)


@dataclass
class Ranks:
    """One process's place among threads that meet at a barrier: a list stands for what they say to each other."""

    rank: int
    size: int
    table: list[Any]
    barrier: threading.Barrier
    num_gathered: int = 0

    def gather(self, said: Any) -> list[Any]:
        self.num_gathered += 1
        self.table[self.rank] = said
        self.barrier.wait(timeout=600)
        told = list(self.table)
        self.barrier.wait(timeout=600)
        return told


class Aloud(History):
    """Whatever is said is done."""

    stops = ()
    tools = ()

    def open(self, task: Task) -> str:
        return task.prompt[0].text

    def bind(self, tools: Any, actions: Any) -> Aloud:
        return self

    def parse(self, text: str, stop: Stop) -> Action:
        return Action(kind="answer", text=text)

    def write(self, move: Any) -> str:
        return move.action.text

    def render(self, observation: tuple[Text, ...]) -> str:
        return "".join(part.text for part in observation)


@dataclass
class Watched(Episode):
    """An engine, and how many of its slots decoded at every tick."""

    engine: Any
    busy: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def step(self) -> list[tuple[Request, Completion]]:
        before = self.engine.counts.num_sampled
        finished = self.engine.step()
        self.busy.append(self.engine.counts.num_sampled - before)
        return finished

    @property
    def occupancy(self) -> float:
        return sum(self.busy) / len(self.busy) / self.engine.num_slots


class Kit:
    """What the tests of this folder share; they cannot import from one another."""

    small_qwen2 = staticmethod(small_qwen2)
    small_llama = staticmethod(small_llama)
    words = WORDS

    @staticmethod
    def word(text: str) -> int:
        return 256 + WORDS.index(text)

    @staticmethod
    def engine(model: Any, tokenizer: Any, **options: Any) -> TorchEngine:
        chosen: dict[str, Any] = {"eos_ids": (), "num_slots": 4} | options
        return TorchEngine(config=model.config, weights=model.state_dict(), tokenizer=tokenizer, **chosen)

    @staticmethod
    def ask(session: int, prompt: Any, *, stream: int | None = None, **options: Any) -> Request:
        """A request; keywords of Sampling go there."""
        sampling = {key: options.pop(key) for key in tuple(options) if key in Sampling.__dataclass_fields__}
        return Request(
            session=session,
            stream=session if stream is None else stream,
            prompt_ids=tuple(prompt),
            sampling=Sampling(**({"max_new_tokens": 8} | sampling)),
            **options,
        )

    @staticmethod
    def finish(engine: TorchEngine, *requests: Request) -> dict[int, Any]:
        """Add requests and step until all are done; completions by session."""
        for request in requests:
            engine.add(request)
        done: dict[int, Any] = {}
        while len(done) < len(requests):
            done.update({request.session: completion for request, completion in engine.step()})
        return done

    @staticmethod
    def on_ranks(size: int, live: Callable[[Any], Any]) -> list[Any]:
        """Return what each rank computes."""
        barrier, table = threading.Barrier(size), [None] * size
        with ThreadPoolExecutor(size) as threads:
            return list(threads.map(lambda rank: live(Ranks(rank, size, table, barrier)), range(size)))

    @staticmethod
    def aloud(tokenizer: Any) -> Speech:
        """Whatever is said is done, and seen as it is."""
        encode = partial(tokenizer.encode, add_special_tokens=False)
        return Speech(dialect=Aloud(), encode=encode, decode=tokenizer.decode)

    @staticmethod
    def watched(engine: Any) -> Watched:
        return Watched(engine)

    @staticmethod
    def ids(seed: int, length: int, high: int = 280) -> list[int]:
        return torch.randint(0, high, (length,), generator=torch.Generator().manual_seed(seed)).tolist()

    @staticmethod
    def logprobs(model: Any, prompt: Any, completion: Any, temperature: float = 1.0) -> torch.Tensor:
        """Hugging Face's log-probabilities of a completion's tokens, from one pass over the whole context."""
        ids = torch.tensor([[*prompt, *completion.token_ids]])
        with torch.inference_mode():
            logits = model(ids).logits[0, len(prompt) - 1 : -1] / temperature
        return torch.log_softmax(logits, -1).gather(1, ids[0, len(prompt) :, None])[:, 0]


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit
