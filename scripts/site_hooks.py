"""Hooks of the documentation site: pages that lie at the top of the repository are pages of the site too."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "RULES.md": "RULES.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top of the repository."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links within the repository as links within the site; what is code is named without a link."""
    top = page.file.src_uri in PAGES.values()

    def moved(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        name = target.removeprefix("../") if not top else target
        if name in PAGES:
            return f"]({PAGES[name]}{anchor})"
        if top and target.startswith("docs/"):
            return f"]({target.removeprefix('docs/')}{anchor})"
        return found[0] if not top else f"](#missing-{target})"

    markdown = LINK.sub(moved, markdown)
    return re.sub(r"(?<!!)\[([^\]]*)\]\(#missing-[^)]*\)", r"`\1`", markdown)
