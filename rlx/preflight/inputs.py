"""Check the inputs of a run from outside before anything is made: a model's folder, a data set, the cache."""

from __future__ import annotations

from rlx.model.folder import check_folder, has_chat_template
from rlx.model.load import Model, local_folder
from rlx.model.packaged import find_gguf, is_packaged
from rlx.model.problem import ModelError
from rlx.record.cache import KINDS, cache_folder
from rlx.run.inputs import environments
from rlx.run.run import Run


class CacheError(OSError):
    """The cache cannot be used; the message is one line with the remedy."""

    exit_code = 2


def check_inputs(run: Run) -> None:
    """Refuse what is here and cannot be used. Nothing is fetched; an environment that reads something has a `check`."""
    check_model(run.model)
    for env in environments(run):
        check = getattr(env, "check", None)
        if check is not None:
            check()
    check_cache()


def check_servers(run: Run) -> None:
    """Refuse servers that an environment asks and that cannot be used from here; an environment with one has a
    `check_server`."""
    for env in environments(run):
        check = getattr(env, "check_server", None)
        if check is not None:
            check()


def check_samplers(run: Run) -> None:
    """Refuse stored episodes that an algorithm reads and that are not there."""
    for stage in run.stages():
        if stage.algo.sample.check is not None:
            stage.algo.sample.check()


def check_model(model: Model) -> None:
    if is_packaged(model.path):
        find_gguf(model.path)
        return
    folder = local_folder(model)
    if folder is None:
        return
    check_folder(model.path, folder)
    if model.chat and not has_chat_template(folder):
        raise ModelError(f"model.path={model.path}: its tokenizer has no chat template; set model.chat=false")


def check_cache() -> None:
    """Warm starts, converted models and evaluations are kept there."""
    for folder in (cache_folder(), *(cache_folder() / kind for kind in KINDS)):
        above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not above.is_dir():
            raise CacheError(
                f"{above} is a file where the cache's folder {folder} should be: move it, or set RLX_CACHE"
            )
