"""A WordNet of a few words in the real file format (wndb), written on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

SENSES: Mapping[str, Sequence[tuple[tuple[str, ...], str | None]]] = {
    "noun": [(("harbour", "haven", "seaport"), None), (("day",), "night"), (("night", "dark_time"), "day")],
    "adj": [(("large(a)", "big"), "small"), (("small", "little"), "large"), (("alone(p)",), None)],
    "adv": [(("quickly", "rapidly"), "slowly"), (("slowly",), "quickly")],
}
"""Senses by part of speech: their words, and a word of the first one's opposite."""


def write_wordnet(folder: Path) -> Path:
    """Write index and data files whose offsets are right."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, senses in SENSES.items():
        head = "  1 This is a made-up database.\n"
        firsts = [words[0].partition("(")[0] for words, _ in senses]
        lengths = [len(_line(part, 0, words, 0 if opposite else None)) for words, opposite in senses]
        offsets = [len(head) + sum(lengths[:place]) for place in range(len(senses))]
        lines = [
            _line(part, offset, words, offsets[firsts.index(opposite)] if opposite else None)
            for offset, (words, opposite) in zip(offsets, senses, strict=True)
        ]
        (folder / f"data.{part}").write_text(head + "".join(lines), encoding="ascii")
        index = [
            f"{word.partition('(')[0]} {part[0]} 1 {pointers} {'! ' * pointers}1 0 {offset:08d}  \n"
            for offset, (words, opposite) in zip(offsets, senses, strict=True)
            for word in words
            for pointers in [1 if opposite else 0]
        ]
        (folder / f"index.{part}").write_text(head + "".join(sorted(index)), encoding="ascii")
    return folder


def _line(part: str, offset: int, words: Sequence[str], target: int | None) -> str:
    listed = " ".join(f"{word} 0" for word in words)
    pointers = "000" if target is None else f"001 ! {target:08d} {part[0]} 0101"
    return f'{offset:08d} 00 {part[0]} {len(words):02x} {listed} {pointers} | a gloss; "an example"  \n'
