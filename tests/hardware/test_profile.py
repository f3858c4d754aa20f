from __future__ import annotations

import pytest

from rlx.hardware.profile import KERNELS, SEGMENTS, set_threads


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_segments_grow_unless_the_user_says_otherwise(name: str) -> None:
    environ = {name: "max_split_size_mb:64"}
    set_threads(2, environ)
    assert environ[name] == "max_split_size_mb:64"
    assert SEGMENTS not in environ.values()
    environ.clear()
    set_threads(2, environ)
    assert environ["PYTORCH_ALLOC_CONF"] == SEGMENTS
    assert environ["OMP_NUM_THREADS"] == "2"


def test_few_kernels_are_kept_unless_the_user_says_otherwise() -> None:
    environ = {"LRU_CACHE_CAPACITY": "9"}
    set_threads(1, environ)
    assert environ["LRU_CACHE_CAPACITY"] == "9"
    assert environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == KERNELS["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]
