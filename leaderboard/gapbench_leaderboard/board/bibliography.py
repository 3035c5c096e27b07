"""The sources that an entry's reference names: links, and BibTeX."""

from __future__ import annotations

import re

from gapbench_leaderboard.board.content import SourceSaid
from gapbench_leaderboard.board.publications import SOURCES, Source

_ARXIV = re.compile(
    r"(?i:\barxiv[: ]\s?|\bhttps?://arxiv\.org/(?:abs|pdf)/)(?P<arxiv>\d{4}\.\d{4,5})(?:v\d+)?"
)
_DOI = re.compile(r"(?i:\bdoi[: ]\s?|\bhttps?://(?:dx\.)?doi\.org/)(?P<doi>10\.\d{4,9}/[^\s,;\"<>{}\\]+)")
_WEB = re.compile(r"\bhttps?://[^\s,;\"<>{}\\]+")


def sources_of(reference: str | None) -> list[SourceSaid]:
    """The publications that a reference names, in the order of the text.

    Args:
        reference: free text; an arXiv number, a DOI or an address of the web is found in it, and so is what
            `SOURCES` lists.

    Returns:
        For each the part of the text that names it, where it is to be read (only http and https), and its BibTeX.
    """
    text = str(reference or "")
    found: list[tuple[int, SourceSaid]] = []
    taken: list[tuple[int, int]] = []

    def add(start: int, end: int, said: SourceSaid) -> None:
        if all(end <= first or last <= start for first, last in taken):
            taken.append((start, end))
            found.append((start, said))

    for match in _ARXIV.finditer(text):
        add(*match.span(), _numbered(match.group(), text, arxiv=match["arxiv"]))
    for match in _DOI.finditer(text):
        whole, doi = match.group().rstrip(".)"), match["doi"].rstrip(".)")
        add(match.start(), match.start() + len(whole), _numbered(whole, text, doi=doi))
    for match in _WEB.finditer(text):
        address = match.group().rstrip(".)")
        add(
            match.start(), match.start() + len(address), _unknown(address, text, address, (("url", address),))
        )
    for source in SOURCES:
        start = text.find(source.cited)
        if start >= 0:
            add(start, start + len(source.cited), _known(source.cited, source))
    return [said for _, said in sorted(found, key=lambda pair: pair[0])]


def _numbered(part: str, text: str, arxiv: str = "", doi: str = "") -> SourceSaid:
    for source in SOURCES:
        if (arxiv and source.arxiv == arxiv) or (doi and source.doi.lower() == doi.lower()):
            return _known(part, source)
    fields = (("eprint", arxiv), ("archiveprefix", "arXiv")) if arxiv else (("doi", doi),)
    return _unknown(part, text, _address(arxiv, doi), fields)


def _known(part: str, source: Source) -> SourceSaid:
    fields = [("author", source.author), ("title", source.title), *source.fields, ("year", str(source.year))]
    if source.arxiv:
        fields += [("eprint", source.arxiv), ("archiveprefix", "arXiv")]
    if source.doi:
        fields.append(("doi", source.doi))
    key = re.sub(r"\W+", "", source.author.partition(",")[0]).lower() + str(source.year)
    return {
        "text": part,
        "url": _address(source.arxiv, source.doi),
        "bibtex": _bibtex(source.kind, key, fields),
    }


def _unknown(part: str, text: str, address: str, fields: tuple[tuple[str, str], ...]) -> SourceSaid:
    key = re.sub(r"\W+", "-", part.partition("://")[2] or part).strip("-").lower()
    note = ("note", re.sub(r"([\\{}$&#_%~^])", r"\\\1{}", " ".join(text.split())))
    return {"text": part, "url": address, "bibtex": _bibtex("misc", key, [*fields, note])}


def _address(arxiv: str, doi: str) -> str:
    return f"https://arxiv.org/abs/{arxiv}" if arxiv else f"https://doi.org/{doi}"


def _bibtex(kind: str, key: str, fields: list[tuple[str, str]]) -> str:
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields)
    return f"@{kind}{{{key},\n{lines}}}\n"
