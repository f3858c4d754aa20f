"""The documentation: `make docs` builds a site, whose links lead somewhere and whose pages need no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")


def test_the_site_builds_with_its_links_checked_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="without the extra `docs`")
    # not --quiet, which drops warnings before --strict counts them
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert tmp_path / "start" / "student.html" in pages
    assert not [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_of_pages_outside_the_site_lead_to_files(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]
