"""Matrices, cache and state of a model's layers, by `model_type`, from the keys of its config.json.

`LAYERS` has every type whose parameters tests/model/test_layers.py has compared with those of transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from rlx.model.layer import Config, Layer, attention_maps, gated_maps, llama_like, widths

FULL, SLIDING, LINEAR, CONV = "full_attention", "sliding_attention", "linear_attention", "conv"


class UnsizedError(ValueError):
    """A model whose parameters cannot be counted from its config.json."""


def biased(config: Config) -> str:
    """Return the biases of types that have them where `attention_bias` says so."""
    return "qkvo" if config.get("attention_bias") else ""


def kinds_of(config: Config, *, interval: int | None = None, rest: str = SLIDING) -> list[str]:
    """Return the kind of each layer: as the file names it, else full attention at every `interval` layers, else all
    full."""
    named, num = config.get("layer_types"), config["num_hidden_layers"]
    if named is not None:
        return list(named)
    interval = config.get("full_attention_interval") or config.get("sliding_window_pattern") or interval
    return [FULL if interval is None or (index + 1) % interval == 0 else rest for index in range(num)]


def windowed(config: Config, layer: Layer, *, interval: int | None = None) -> list[Layer]:
    """Return the layers of a type whose sliding layers keep a window."""
    window = replace(layer, window=config.get("sliding_window"))
    return [window if kind == SLIDING else layer for kind in kinds_of(config, interval=interval)]


def repeated(config: Config, layer: Layer) -> list[Layer]:
    return [layer] * config["num_hidden_layers"]


def mistral(config: Config) -> list[Layer]:
    return repeated(config, replace(llama_like(config), window=config.get("sliding_window")))


def qwen(config: Config, layer: Layer) -> list[Layer]:
    """Return the layers of Qwen2 and Qwen3, which slide from one layer on where the file says so."""
    if not config.get("use_sliding_window"):
        return repeated(config, layer)
    first = config.get("max_window_layers", 0)
    kinds = config.get("layer_types") or [
        FULL if index < first else SLIDING for index in range(config["num_hidden_layers"])
    ]
    return windowed({**config, "layer_types": kinds}, layer)


def with_experts(
    config: Config, layer: Layer, *, experts: int, size: int, shared: int = 0, gate: bool = False, biases: bool = False
) -> Layer:
    """Replace a layer's feed-forward by routed experts of `size`, with `shared` numbers of shared ones, and perhaps
    their own `gate`. With `biases` each matrix of an expert has a row more, and the router has biases."""
    width, active = config["hidden_size"], config["num_experts_per_tok"]
    other_maps = {name: pair for name, pair in layer.maps.items() if name not in gated_maps(1, 1)}
    maps = other_maps | {"router": (width, experts)} | (gated_maps(width, shared) if shared else {})
    row = int(biases)
    return replace(
        layer,
        maps=maps | ({"shared_expert_gate": (width, 1)} if gate else {}),
        expert_maps={"gate_up_proj": (width + row, 2 * size), "down_proj": (size + row, width)},
        experts=experts,
        active=active,
        other=layer.other + (experts if biases else 0),
        wide=active * size + shared,
    )


def num_experts(config: Config) -> int:
    """Return the routed experts, whose key differs between types and between versions of transformers."""
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return int(next((config[name] for name in names if config.get(name)), 0))


def qwen3_moe(config: Config) -> list[Layer]:
    """Return layers of routed experts, with dense ones among them where the file says so."""
    plain = {"intermediate_size": config["moe_intermediate_size"], **config}
    dense = llama_like(plain, biases=biased(config), normed="head")
    return sparse(config, [dense] * config["num_hidden_layers"])


def sparse(config: Config, layers: list[Layer]) -> list[Layer]:
    """Give the layers their experts: each `decoder_sparse_step`-th, but those of `mlp_only_layers`."""
    step, dense = config.get("decoder_sparse_step") or 1, config.get("mlp_only_layers") or ()
    shared = config.get("shared_expert_intermediate_size") or 0
    sizes = {"experts": num_experts(config), "size": config["moe_intermediate_size"]}
    return [
        layer
        if index in dense or (index + 1) % step
        else with_experts(config, layer, **sizes, shared=shared, gate=bool(shared))
        for index, layer in enumerate(layers)
    ]


def delta_layer(config: Config, attention: Layer, *, split: bool) -> Layer:
    """Build a gated delta net with the feed-forward of an attention layer. `split`: its projections are four matrices
    (Qwen3.5) rather than two (Qwen3-Next)."""
    width, values = config["hidden_size"], config["linear_num_value_heads"]
    key = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    size = config["linear_value_head_dim"]
    value = values * size
    mixed, kernel = 2 * key + value, config["linear_conv_kernel_dim"]
    inputs = (
        {"in_proj_qkv": mixed, "in_proj_z": value, "in_proj_b": values, "in_proj_a": values}
        if split
        else {"in_proj_qkvz": mixed + value, "in_proj_ba": 2 * values}
    )
    rest = {name: pair for name, pair in attention.maps.items() if name not in attention_maps(1, 1, 1)}
    return replace(
        attention,
        maps={name: (width, out) for name, out in inputs.items()} | {"out_proj": (value, width)} | rest,
        other=2 * width + 2 * values + kernel * mixed + size,
        projected=2 * mixed + 2 * value,
        cached=0,
        mixed=0,
        state=4 * values * config["linear_key_head_dim"] * size + 2 * kernel * mixed,
    )


def delta_hybrid(config: Config, *, split: bool) -> list[Layer]:
    """Return full attention with gated queries at every fourth layer, and gated delta nets between, with experts where
    the file has some."""
    plain = {"intermediate_size": config.get("moe_intermediate_size"), **config}
    full = llama_like(plain, biases=biased(config), normed="head")
    width, query, _ = widths(config)
    full = replace(full, maps={**full.maps, "q_proj": (width, 2 * query)}, projected=full.projected + query)
    if config.get("attention_bias"):
        full = replace(full, other=full.other + query)
    linear = delta_layer(config, full, split=split)
    layers = [full if kind == FULL else linear for kind in kinds_of(config, interval=4, rest=LINEAR)]
    return sparse(config, layers) if num_experts(config) else layers


def gpt_oss(config: Config) -> list[Layer]:
    """Return layers of experts with biases, and of attention with a sink for each head."""
    size = config["intermediate_size"]
    dense = llama_like(config, biases="qkvo")
    dense = replace(dense, other=dense.other + config["num_attention_heads"])
    layer = with_experts(config, dense, experts=num_experts(config), size=size, biases=True)
    return windowed(config, layer, interval=2)


def falcon_h1(config: Config) -> list[Layer]:
    """Return layers of attention and a Mamba 2 mixer side by side."""
    width, mixer = config["hidden_size"], config["mamba_d_ssm"] or config["mamba_expand"] * config["hidden_size"]
    heads, kernel = config["mamba_n_heads"], config["mamba_d_conv"]
    groups = config["mamba_n_groups"] * config["mamba_d_state"]
    mixed = mixer + 2 * groups
    plain = llama_like(config, biases=biased(config))
    vectors = 3 * heads + kernel * mixed + (mixed if config.get("mamba_conv_bias", True) else 0)
    vectors += mixer if config.get("mamba_rms_norm") else 0
    vectors += mixer + mixed + heads if config.get("mamba_proj_bias") else 0
    vectors += width if config.get("projectors_bias") else 0
    layer = replace(
        plain,
        maps={**plain.maps, "in_proj": (width, mixer + mixed + heads), "out_proj": (mixer, width)},
        other=plain.other + vectors,
        projected=plain.projected + 2 * mixed + 2 * mixer,
        state=4 * heads * config["mamba_d_head"] * config["mamba_d_state"] + 2 * kernel * mixed,
    )
    return repeated(config, layer)


def lfm2(config: Config) -> list[Layer]:
    """Return short convolutions, with attention at the layers that the file names."""
    width, kernel = config["hidden_size"], config["conv_L_cache"]
    plain = llama_like({**config, "intermediate_size": lfm2_feed_forward(config)}, normed="head")
    forward = {name: pair for name, pair in plain.maps.items() if name in gated_maps(1, 1)}
    renamed = dict(zip(("w1", "w3", "w2"), forward.values(), strict=True))
    inner_maps = {
        ("out_proj" if name == "o_proj" else name): pair for name, pair in plain.maps.items() if name not in forward
    }
    biases = config.get("conv_bias", False)
    conv = replace(
        plain,
        maps={"in_proj": (width, 3 * width), "out_proj": (width, width)} | renamed,
        other=2 * width + kernel * width + (5 * width if biases else 0),
        projected=5 * width,
        cached=0,
        mixed=0,
        state=2 * kernel * width,
    )
    full = replace(plain, maps=inner_maps | renamed)
    indices = config.get("full_attn_idxs")
    kinds = config.get("layer_types") or [
        FULL if indices is None or index in indices else CONV for index in range(config["num_hidden_layers"])
    ]
    return [full if kind == FULL else conv for kind in kinds]


def lfm2_feed_forward(config: Config) -> int:
    """Return the feed-forward's width, which the model rounds where the file says so."""
    size = config.get("block_ff_dim") or config["intermediate_size"]
    if not config.get("block_auto_adjust_ff_dim", True):
        return int(size)
    factor, multiple = config.get("block_ffn_dim_multiplier", 1.0), config.get("block_multiple_of", 256)
    size = int(2 * size / 3) if factor is None else int(factor * int(2 * size / 3))
    return int(multiple * -(-size // multiple))


def phi3(config: Config) -> list[Layer]:
    """Return Llama's layers with fused projections."""
    plain = llama_like(config)
    width, query, key = widths(config)
    maps = {
        "qkv_proj": (width, query + 2 * key),
        "o_proj": (query, width),
        "gate_up_proj": (width, 2 * config["intermediate_size"]),
        "down_proj": (config["intermediate_size"], width),
    }
    return repeated(config, replace(plain, maps=maps, window=config.get("sliding_window")))


def glm4(config: Config) -> list[Layer]:
    plain = llama_like(config, biases="qkv" if config.get("attention_bias") else "", norms=4)
    inner = config["intermediate_size"]
    other_maps = {name: pair for name, pair in plain.maps.items() if name not in ("gate_proj", "up_proj")}
    return repeated(config, replace(plain, maps={**other_maps, "gate_up_proj": (config["hidden_size"], 2 * inner)}))


def deepseek(config: Config) -> list[Layer]:
    """Return layers of latent attention; the first few are dense. An engine caches a token's latent vector."""
    width, heads, latent = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    plain, turned, size = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    rank, queries = config.get("q_lora_rank"), heads * (plain + turned)
    query_maps = (
        {"q_proj": (width, queries)} if rank is None else {"q_a_proj": (width, rank), "q_b_proj": (rank, queries)}
    )
    maps = query_maps | {
        "kv_a_proj_with_mqa": (width, latent + turned),
        "kv_b_proj": (latent, heads * (plain + size)),
        "o_proj": (heads * size, width),
    }
    dense = Layer(
        maps=maps | gated_maps(width, config["intermediate_size"]),
        other=2 * width + latent + (rank or 0),
        wide=config["intermediate_size"],
        projected=2 * queries + heads * (plain + 2 * size),
        cached=latent + turned,
        mixed=queries + heads * size,
    )
    shared = (config.get("n_shared_experts") or 0) * config["moe_intermediate_size"]
    sizes = {"experts": num_experts(config), "size": config["moe_intermediate_size"], "shared": shared}
    routed = with_experts(config, dense, **sizes)
    first = config.get("first_k_dense_replace", 0)
    return [dense if index < first else routed for index in range(config["num_hidden_layers"])]


LAYERS: Mapping[str, Callable[[Config], list[Layer]]] = MappingProxyType(
    {
        "llama": lambda config: repeated(config, llama_like(config, biases=biased(config))),
        "mistral": mistral,
        "ministral": lambda config: windowed(config, llama_like(config)),
        "ministral3": mistral,
        "qwen2": lambda config: qwen(config, llama_like(config, biases="qkv")),
        "qwen3": lambda config: qwen(config, llama_like(config, biases=biased(config), normed="head")),
        "qwen3_moe": qwen3_moe,
        "qwen3_next": lambda config: delta_hybrid(config, split=False),
        "qwen3_5_text": lambda config: delta_hybrid(config, split=True),
        "qwen3_5_moe_text": lambda config: delta_hybrid(config, split=True),
        "gemma2": lambda config: windowed(config, llama_like(config, biases=biased(config), norms=4), interval=2),
        "gemma3_text": lambda config: windowed(
            config, llama_like(config, biases=biased(config), normed="head", norms=4), interval=6
        ),
        "smollm3": lambda config: repeated(config, llama_like(config, biases=biased(config))),
        "olmo2": lambda config: repeated(config, llama_like(config, biases=biased(config), normed="whole")),
        "olmo3": lambda config: windowed(config, llama_like(config, biases=biased(config), normed="whole"), interval=4),
        "glm4": glm4,
        "granite": lambda config: repeated(config, llama_like(config, biases=biased(config))),
        "cohere2": lambda config: windowed(config, llama_like(config, biases=biased(config), norms=1), interval=4),
        "gpt_oss": gpt_oss,
        "falcon_h1": falcon_h1,
        "lfm2": lfm2,
        "phi3": phi3,
        "deepseek_v2": deepseek,
        "deepseek_v3": deepseek,
    }
)
"""Layers of a model, by its `model_type`."""

TIED = ("gemma2", "gemma3_text", "smollm3", "cohere2", "lfm2")
"""Types whose head shares the embedding unless their file says otherwise."""
DEFAULTS: Mapping[str, Config] = MappingProxyType(
    {
        "gemma3_text": {
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 262_208,
            "sliding_window": 4096,
        }
    }
)
"""Values of keys that the published files of a type leave out, as transformers 5.23 fills them."""


def text_config(config: Config) -> Config:
    """Return the keys of the language model in a file that may describe images too, with the type's defaults."""
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        tied = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        return text_config({**tied, **inner})
    kind = str(config.get("model_type", ""))
    values = {key: value for key, value in config.items() if value is not None}
    return {**DEFAULTS.get(kind, {}), **values}


def layers_of(config: Config) -> tuple[Layer, ...]:
    """Build the layers of a model; UnsizedError for a type that is not in the table."""
    kind = str(config.get("model_type", ""))
    if kind not in LAYERS:
        raise UnsizedError(f"rlx cannot size model_type {kind or 'of no name'!r:.60}")
    layers = LAYERS[kind](config)
    if len(layers) != config["num_hidden_layers"]:
        raise UnsizedError(f"{len(layers)} layer types for num_hidden_layers={config['num_hidden_layers']}")
    return tuple(layers)
