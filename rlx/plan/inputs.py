"""Check the inputs of a run from outside before anything is made: a model's folder, a data set, the cache."""

from __future__ import annotations

from rlx.model.folder import check_folder, has_chat_template
from rlx.model.load import check_family
from rlx.model.packaged import find_gguf, is_packaged
from rlx.model.problem import ModelError
from rlx.plan.prospect import Prospect
from rlx.runs.cache import KINDS, cache_folder


class CacheError(OSError):
    """The cache cannot be used; the message is one line with the remedy."""

    exit_code = 2


def check_inputs(prospect: Prospect) -> None:
    """Refuse what is here and cannot be used. Nothing is fetched; each environment looks at its own files."""
    check_model(prospect)
    for env in prospect.environments:
        env.check_inputs()
    check_cache()
    check_samplers(prospect)


def check_samplers(prospect: Prospect) -> None:
    """Refuse stored episodes that an algorithm reads and that are not there."""
    for run in prospect.runs if prospect.trains else ():
        if run.algo.sample.check is not None:
            run.algo.sample.check()


def check_servers(prospect: Prospect) -> None:
    """Refuse servers that an environment asks and that cannot be used from here."""
    for env in prospect.environments:
        env.check_servers()


def check_model(prospect: Prospect) -> None:
    """Refuse a model's folder, or its package, that cannot be used."""
    model = prospect.run.model
    if is_packaged(model.path):
        find_gguf(model.path)
    elif prospect.folder is not None:
        check_folder(model.path, prospect.folder)
        if model.chat and not has_chat_template(prospect.folder):
            raise ModelError(f"model.path={model.path}: its tokenizer has no chat template; set model.chat=false")
    check_family(model)


def check_cache() -> None:
    """Refuse a cache that is no folder: warm starts, converted models and evaluations are kept there."""
    for folder in (cache_folder(), *(cache_folder() / kind for kind in KINDS)):
        above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not above.is_dir():
            raise CacheError(
                f"{above} is a file where the cache's folder {folder} should be: move it, or set RLX_CACHE"
            )
