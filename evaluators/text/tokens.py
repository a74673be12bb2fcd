"""Words of a text, as the reference implementations of the n-gram metrics cut them.

Three tokenizers, each equal to its reference on every text (the tests compare them on random input):

* :func:`nltk_words`: NLTK's ``NLTKWordTokenizer``, sentence by sentence, for BLEU.
* :func:`rouge_words`: the default tokenizer of ``rouge-score``.
* :func:`valor_words`: the regular expression with which Valor computes BLEU.

``import nltk``, and any import from it, runs the package's ``__init__``, which imports scikit-learn, SciPy and pandas
where they are installed: a second of processor time in every process that scores, for a tokenizer and a stemmer of
regular expressions. :func:`nltk_part` runs the module's file alone. What that imports from NLTK is loaded in the same
way; nothing of it is in ``sys.modules``, so that ``import nltk`` elsewhere gives the whole package as ever.
"""

from __future__ import annotations

import builtins
import importlib.util
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

_LONGEST_REMEMBERED: Final = 64
"""Longer words are rare and not worth the memory; they are tokenized each time."""
_MOST_REMEMBERED: Final = 200_000
"""Words remembered in a process: some 50 MB at most."""

T = TypeVar("T")

_QUOTE: Final = re.compile(r"[\"']")
_ODD_SPACE: Final = re.compile(r"[^\S ]")
_LETTER_OR_DIGIT: Final = re.compile(r"[^\W_]")
_NOT_CLOSING: Final = re.compile("[^.\\])}>\"'»\u201d\u2019]")
"""A character at which NLTK's rule for the final period stops looking back."""

_CONTRACTIONS: Final = frozenset({"cannot", "gimme", "gonna", "gotta", "lemme", "wanna"})
"""The words of letters alone that NLTK cuts in two."""

_ROUGE_WORD: Final = re.compile(r"[a-z0-9]+")


def _remembering(make: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function of a word that remembers the results for the words that it was last given."""
    remembered = lru_cache(_MOST_REMEMBERED)(make)
    return lambda word: remembered(word) if len(word) <= _LONGEST_REMEMBERED else make(word)


class _NltkTokenizer:
    """NLTK's word tokenizer with a memory of words: the same tokens, some ten times as fast.

    The tokenizer is a chain of substitutions. All but a few look no further than one word
    (a stretch between white space), so the tokens of a word inside a sentence are found once, with NLTK itself, and
    remembered. The exceptions go to NLTK as full sentences:

    * quotation marks and apostrophes beside white space that is no plain space, doubled ones, and words that
      have no letter or digit but a quotation mark;
    * a sentence that ends with a word of nothing but closing brackets, quotation marks and periods, since the rule
      for the final period then reaches into the word before.
    """

    def __init__(self) -> None:
        self._reference: Callable[[str], list[str]] = (
            _nltk_part("nltk.tokenize.destructive").NLTKWordTokenizer().tokenize
        )
        self._inner = _remembering(partial(self._tokens, final=False))
        self._last = _remembering(partial(self._tokens, final=True))

    def _tokens(self, word: str, *, final: bool) -> tuple[str, ...] | None:
        """Return the tokens of a word, ``None`` where they depend on the words around it."""
        if word.isascii() and word.isalnum() and word.lower() not in _CONTRACTIONS:
            return (word,)
        if "''" in word or '""' in word or (_QUOTE.search(word) and not _LETTER_OR_DIGIT.search(word)):
            return None
        if final:
            return tuple(self._reference(f"x {word}")[1:]) if _NOT_CLOSING.search(word) else None
        return tuple(self._reference(f"x {word} x")[1:-1])

    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens of one sentence that has no white space around it."""
        words = sentence.split()
        if not words:
            return []
        if _QUOTE.search(sentence) and _ODD_SPACE.search(sentence):
            return self._reference(sentence)
        final = self._last(words.pop())
        if final is None:
            return self._reference(sentence)
        inner = self._inner
        out: list[str] = []
        for word in words:
            tokens = inner(word)
            if tokens is None:
                return self._reference(sentence)
            out += tokens
        out += final
        return out


@cache
def _nltk() -> _NltkTokenizer:
    return _NltkTokenizer()


def nltk_words(sentences: Iterable[str]) -> list[str]:
    """Return the tokens of a text's sentences, one after the other, as ``nltk.word_tokenize`` does.

    Args:
        sentences: The sentences of the text, without surrounding white space.
    """
    tokens = _nltk().tokens
    return [token for sentence in sentences for token in tokens(sentence)]


def rouge_words(text: str, *, stem: bool = False) -> list[str]:
    """Return the lower-case runs of ASCII letters and digits, as ``rouge-score`` does.

    Text in other scripts has no tokens at all, which is the reference's behaviour. To stem is to cut words of more than
    three letters with NLTK's Porter stemmer.
    """
    words = _ROUGE_WORD.findall(text.lower())
    if not stem:
        return words
    stem_of = _stemmer()
    return [stem_of(word) if len(word) > 3 else word for word in words]


@cache
def _stemmer() -> Callable[[str], str]:
    return _remembering(_nltk_part("nltk.stem.porter").PorterStemmer().stem)


def valor_words(text: str) -> list[str]:
    r"""Return the tokens by which Valor computes BLEU: ``\w+|\$[\d]+|[^\s\.]+``, case kept.

    The expression runs on the ``regex`` engine, as NLTK's ``RegexpTokenizer`` does: combining marks belong to words.
    """
    return _valor_word().findall(text)  # type: ignore[no-any-return]


@cache
def _valor_word():  # type: ignore[no-untyped-def]  # regex has no types
    import regex

    return regex.compile(r"\w+|\$[\d]+|[^\s\.]+")


@cache
def _nltk_part(name: str) -> Any:
    """Return a module of NLTK, such as ``nltk.stem.porter``.

    Raises:
        ImportError: There is no such module.
    """
    module = ModuleType(name)
    code = SourceFileLoader(name, str(_file(name))).get_code(name)
    if code is None:
        raise ImportError(f"{name} has no code", name=name)
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}
    exec(code, vars(module))  # noqa: S102 - the file of an installed package, as the import system runs it
    return module


def _import(name: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
    """Import for the modules of NLTK: as ever, but modules of NLTK by :func:`_nltk_part`."""
    if level or name.partition(".")[0] != "nltk":
        return __import__(name, scope, local, wanted, level)
    if _file(name).is_file():
        return _nltk_part(name)
    package = ModuleType(name)
    vars(package).update({part: _nltk_part(f"{name}.{part}") for part in wanted})
    return package


def _file(name: str) -> Path:
    package, *parts = name.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return Path(spec.origin).parent.joinpath(*parts).with_suffix(".py")
