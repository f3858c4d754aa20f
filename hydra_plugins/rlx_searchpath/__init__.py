"""Lets Hydra read the folders of options through rlx's own source of configurations."""

from __future__ import annotations

from pathlib import Path

import hydra.conf
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from rlx.settings.source import SEARCHED, FolderSource, address_of

__all__ = ["FolderSource", "RlxSearchPath"]  # Hydra registers each plugin that a module of this package has


class RlxSearchPath(SearchPathPlugin):
    """Lets rlx's source read the folders that rlx searches, and Hydra's own; other programs keep theirs."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        folders = {"main": SEARCHED.get(), "hydra": [Path(hydra.conf.__file__).parent]} if SEARCHED.get() else {}
        for element in search_path.get_path():
            if element.provider in folders:
                element.path = address_of(folders[element.provider])
