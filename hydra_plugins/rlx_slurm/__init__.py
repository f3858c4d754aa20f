"""`hydra/launcher=slurm`: hydra-submitit-launcher, with jobs that survive.

Its jobs are started, watched and requeued by `rlx.launch`; its signal handlers, which save nothing, are not used.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf, open_dict

try:
    from hydra_plugins.hydra_submitit_launcher.submitit_launcher import SlurmLauncher as Base
except ImportError:  # without the extra `slurm` the launcher is listed, and refuses
    Base = Launcher


class SlurmLauncher(Base):  # type: ignore[misc, valid-type]
    """Submits one job, or one array, and reports what came of it."""

    def __init__(self, **params: Any) -> None:
        self.params = {k: OmegaConf.to_container(v, resolve=True) if OmegaConf.is_config(v) else v
                       for k, v in params.items()}  # fmt: skip
        self.config: DictConfig | None = None

    def setup(self, *, hydra_context: Any, task_function: Any, config: DictConfig) -> None:
        self.config, self.hydra_context, self.task_function = config, hydra_context, task_function

    def __call__(self, *arguments: Any) -> JobReturn:
        """One rank, in the job. It ends as `rlx train` would: with the same words and exit code."""
        from rlx.commands.last_words import fail, one_line_of
        from rlx.config.compose import Unwind
        from rlx.hardware.interrupt import listen

        try:
            with listen():
                done = super().__call__(*arguments)
            if done.status is JobStatus.FAILED:
                raise done._return_value
            return done
        except (Unwind, Exception) as caught:
            error = caught.error if isinstance(caught, Unwind) else caught
            told = one_line_of(error) if isinstance(error, Exception) else None
            if told is None:
                raise error from None
            sys.exit(fail(told, getattr(error, "exit_code", 1)))

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from rlx.console import Screen
        from rlx.launch.array import announce, check_slurm, follow, refuse_failures
        from rlx.launch.start import LaunchError

        check_slurm()
        say = Screen().say
        configs = [self._compose(overrides, initial_job_idx + i) for i, overrides in enumerate(job_overrides)]
        jobs, results = self._submit(job_overrides, initial_job_idx, configs)
        announce(jobs, [config.steps for config in configs], say)
        if not self.params["wait"]:
            return []
        try:
            over = follow(jobs, say)
        except KeyboardInterrupt:
            ids = " ".join(sorted({job.id.split("_")[0] for job in jobs}))
            raise LaunchError(f"no longer waiting; the jobs go on: `rlx status`, `scancel {ids}`", 130) from None
        refuse_failures(jobs, over)
        return [load() for load in results]

    def _compose(self, overrides: Sequence[str], num: int) -> DictConfig:
        """The configuration of one job, as Hydra will compose it there."""
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config.hydra.job) as job:
            job.num, job.id = num, f"job_id_for_{num}"
        return config

    def _submit(self, job_overrides: Sequence[Sequence[str]], first: int, configs: Sequence[DictConfig]) -> Any:
        """Hand the jobs to submitit's executor; what was submitted, and how to read each result."""
        from functools import partial

        from hydra.core.singleton import Singleton
        from submitit.core.utils import pickle_load
        from submitit.slurm.slurm import SlurmExecutor

        from rlx.config.compose import build_run, to_tree
        from rlx.launch.array import (
            Job,
            delay_seconds,
            list_folders,
            memory_gb,
            names_of,
            one_shape,
            sbatch_parameters,
            watch_command,
        )
        from rlx.preflight.prospect import Prospect

        runs = [build_run(to_tree(config), Path()) for config in configs]
        shape = one_shape([run.hardware for run in runs], self.params)
        prospects = [Prospect(run=run) for run in runs]
        sizes = {"mem_gb": memory_gb, "signal_delay_s": delay_seconds}
        params = {**self.params, **{key: self.params[key] or size(prospects) for key, size in sizes.items()}}
        sweep = Path(str(self.config.hydra.sweep.dir)).absolute()
        folders = [sweep / str(config.hydra.sweep.subdir) for config in configs]
        listed = list_folders(sweep / ".submitit", folders)
        limit = self.params["max_num_timeout"]

        class Executor(SlurmExecutor):
            """submitit's, whose batch script watches."""

            @property
            def _submitit_command_str(self) -> str:
                task = [sys.executable, "-u", "-m", "submitit.core._submit", str(self.folder)]
                return "exec " + shlex.join(watch_command(shape, limit, listed, task))

        place = Path(self.params["submitit_folder"]).absolute()
        executor = Executor(place, max_num_timeout=limit)
        executor.update_parameters(**executor._convert_parameters(sbatch_parameters(shape, params)))
        state = Singleton.get_state()
        arguments = [(list(words), "hydra.sweep.dir", first + i, f"job_id_for_{first + i}", state)
                     for i, words in enumerate(job_overrides)]  # fmt: skip
        submitted = executor.map_array(self, *zip(*arguments, strict=True))
        names = names_of([filter_overrides(words) for words in job_overrides], folders)
        jobs = [Job(id=job.job_id, name=name, folder=folder)
                for job, name, folder in zip(submitted, names, folders, strict=True)]  # fmt: skip
        paths = [job.task(0).paths.result_pickle for job in submitted]
        return jobs, [partial(lambda path: pickle_load(path)[1], path) for path in paths]
