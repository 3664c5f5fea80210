"""No link of the documentation leads nowhere, and no page is left out of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.markdown_pages import PAGES, ROOT, anchors, links, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    dead = []
    for link in links(page):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (heading and heading not in anchors(target)):
            dead.append(link)

    assert dead == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs")]

    assert [str(page) for page in pages if not any(line.endswith(f" {page}") for line in navigation.splitlines())] == []
