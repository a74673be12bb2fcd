"""Jinja: HTML is escaped by default, Markdown by the filter ``md``; hostile characters are made visible."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from leadline.evaluators.ground import count, nouns, signed_percent, visible
from leadline.tasks.ground.numbers import bound, duration, figure, money, percent, signed, when

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_COMPILED: Final = Path(cache_from_source(__file__)).parent

_MARKDOWN: Final = re.compile(r"([\\`*{}\[\]<>#|~&!]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z]))")


def markdown(value: object, limit: int = 2000) -> str:
    """Return text that Markdown shows as it is, on one line."""
    text = str(value)
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text) - limit:,} more characters)"
    return _MARKDOWN.sub(r"\\\1", visible(" ".join(text.split())))


def breakable(text: str) -> Markup:
    """Let a long key break after its separators, not in the middle of a word."""
    return Markup(re.sub(r"([_/.:-])", r"\1<wbr>", str(escape(visible(text)))))  # noqa: S704 - escaped before


@cache
def _environment(package: str) -> Environment:
    from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined

    def finalize(value: object) -> object:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    # Templates are kept compiled where Python keeps compiled modules, if it may: that takes as long as filling them in.
    # An environment's options are compiled in, and calls into Jinja.
    settings = hashlib.sha256(Path(__file__).read_bytes() + version("jinja2").encode()).hexdigest()[:8]
    writable = not sys.dont_write_bytecode and os.access(_COMPILED, os.W_OK)
    environment = Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=lambda name: name is None or not name.endswith(".md"),  # noqa: S701 - Markdown has a filter
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=FileSystemBytecodeCache(str(_COMPILED), f"%s-{settings}.jinja") if writable else None,
    )
    environment.filters |= {
        "md": markdown,
        "breakable": breakable,
        "figure": figure,
        "signed": signed,
        "bound": bound,
        "percent": percent,
        "signed_percent": signed_percent,
        "money": money,
        "duration": duration,
        "when": when,
        "counted": count,
        "noun": nouns,
    }
    return environment


def render(package: str, template: str, **context: Any) -> str:
    """Fill in a template of a package; every undefined name is an error."""
    return _environment(package).get_template(template).render(**context)


def render_source(package: str, source: str, name: str, **context: Any) -> str:
    """Fill in a template that is given as text; every undefined name is an error.

    Args:
        name: What it is called in messages; the text is Markdown if it ends in ``.md``, otherwise HTML.
    """
    return _compiled(package, source, name).render(**context)


def content_policy(style: str, script: str = "") -> str:
    """Return a page's Content-Security-Policy: its own style and script by their hashes, no network at all."""
    runs = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; {runs}style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page_style() -> str:
    """Return the style that all pages share: reports, comparisons and the pages of ``leadline ui``."""
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")


@cache
def _compiled(package: str, source: str, name: str) -> Template:
    environment = _environment(package)
    stored = environment.bytecode_cache
    bucket = stored.get_bucket(environment, name, None, source) if stored else None
    code = bucket.code if bucket else None
    if code is None:
        code = environment.compile(source, name, name)
        if stored and bucket:
            bucket.code = code
            stored.set_bucket(bucket)
    return environment.template_class.from_code(environment, code, environment.make_globals(None))
