"""Bring pages of the repository that lie outside docs/ into the site, and keep the site free of foreign addresses."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
MOUNTED = {
    **{f"loadtest/results/{path.name}": f"results/{path.name}" for path in ROOT.glob("loadtest/results/*.md")},
    **{f"models/{name}/README.md": f"model-cards/{name}.md" for name in ("house", "ear", "phrasebook")},
    "training/README.md": "training/house.md",
    "training/phrasebook/README.md": "training/phrasebook.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "NOTICE": "notice.md",
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
}
# Pages of docs/ that stand for a page of the repository.
OWN = ("index.md", "contributing.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?![a-z]+:|#)[^)#\s]+)(#[^)\s]*)?\)")
FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source|audio)[^>]*\ssrc="(?:https?:)?//|<link[^>]*rel="(?!canonical)[^>]*href="(?:https?:)?//"""
)


def on_files(files: Files, config: Any) -> Files:
    """Add the mounted pages."""
    for source, page in MOUNTED.items():
        if page not in OWN:
            content = (ROOT / source).read_text(encoding="utf-8")
            if not source.endswith(".md"):
                content = f"# {source}\n\n```text\n{content}```\n"
            files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to where their targets are in the site; of a link to other files of the repository the text stays."""
    sources = {mounted: source for source, mounted in MOUNTED.items() if mounted not in OWN}
    here = page.file.src_uri
    folder = PurePosixPath(sources.get(here, f"docs/{here}")).parent

    def resolve(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        found = os.path.normpath(folder / target)
        inside = MOUNTED.get(found, found.removeprefix("docs/") if found.startswith("docs/") else None)
        if inside is None:
            return text
        return f"{image}[{text}]({os.path.relpath(inside, PurePosixPath(here).parent)}{anchor or ''})"

    return LINK.sub(resolve, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads anything from elsewhere."""
    if found := FOREIGN.search(output):
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {output[found.start() : found.end() + 80]}")
    return output
