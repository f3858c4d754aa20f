"""Lets Hydra find the shipped sweeps and the user's own config folders, after the shipped configuration."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class RlxSearchPath(SearchPathPlugin):
    """Appends `sweeps`, `$RLX_CONF_DIR`, `./conf` and `~/.config/rlx/conf`."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        from rlx.settings.folders import search_folders

        for name, folder in search_folders():
            search_path.append(provider=name, path=f"file://{folder}")
