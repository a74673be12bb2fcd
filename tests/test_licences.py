"""Licences of all that Leadline installs are among those that it may be used and passed on with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]

ALLOWED = frozenset(
    "0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 CNRI-Python HPND ISC MIT MIT-0 MIT-CMU MPL-2.0 PSF-2.0 "
    "Unlicense Zlib".split()
)
"""Permissive ones, and the Mozilla Public License, which asks for changes to its own files only."""

BY_CLASSIFIER = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}

BY_TEXT = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0 license": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache-2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "freebsd": "BSD-2-Clause",
    "mit license": "MIT",
}

EXCEPTIONS = {
    "axe-playwright-python": "MIT, by the file LICENSE that it brings along; it carries axe-core, of MPL-2.0",
    "faster-coco-eval": "Apache-2.0, by the file LICENSE that it brings along",
    "psycopg": "LGPL-3.0-only: a library that is imported as it is, of the extra service",
    "psycopg-binary": "the same",
    "python-stdnum": "LGPL-2.1-or-later: an oracle of the tests, of the extra dev",
    "text-unidecode": "Artistic License, at our choice; of Prefect's own dependencies",
}
"""Packages with other licences, each with the reason why it is there."""

PROPRIETARY = re.compile(r"(nvidia|cuda)-.*")
"""NVIDIA's libraries, which PyTorch's wheels for Linux bring along; no image without CUDA has them."""

EXTRAS = re.compile(r"^(\w+) = \[", re.MULTILINE)


def installed() -> Iterator[Distribution]:
    """Yield the distributions that Leadline and its extras need, directly or not, as far as they are here."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]")[2]
    found: dict[str, set[str]] = {}
    waiting = [("leadline", frozenset(EXTRAS.findall(project.partition("\n[")[0])))]
    while waiting:
        name, extras = waiting.pop()
        fresh = extras - found[name] if name in found else {"", *extras}
        if not fresh:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra or a platform that is not here
        if name not in found and name != "leadline":
            yield package
        found.setdefault(name, set()).update(fresh)
        for line in package.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in fresh):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))


def licence_of(package: Distribution) -> str:
    """Return a package's licence as an SPDX expression, from whichever of three fields it has, or ``""``."""
    about = package.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    classifiers = [line.rpartition("::")[2].strip() for line in about.get_all("Classifier") or []]
    by_classifier = [BY_CLASSIFIER[line] for line in classifiers if line in BY_CLASSIFIER]
    if by_classifier:
        return " OR ".join(by_classifier)
    text = str(about.get("License") or "").strip()
    first = text.split("\n")[0].strip()
    return BY_TEXT.get(first.lower(), first)


def is_allowed(expression: str) -> bool:
    """Return whether an SPDX expression leaves a choice of allowed licences only."""
    words = re.findall(r"[()]|[\w.+-]+", re.sub(r" WITH [\w.-]+", "", expression))
    meaning = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    terms = [meaning.get(word) or str(word in ALLOWED) for word in words]
    try:
        return bool(terms) and bool(eval(" ".join(terms), {"__builtins__": {}}))
    except SyntaxError:
        return False  # prose


def test_every_licence_is_allowed() -> None:
    packages = {canonicalize_name(package.metadata["Name"]): licence_of(package) for package in installed()}
    assert len(packages) > 100
    refused = {
        name: licence or "none is named"
        for name, licence in packages.items()
        if not is_allowed(licence) and name not in EXCEPTIONS and not PROPRIETARY.fullmatch(name)
    }
    assert refused == {}


def test_an_exception_is_still_needed() -> None:
    packages = {canonicalize_name(package.metadata["Name"]): licence_of(package) for package in installed()}
    assert [name for name in EXCEPTIONS if name in packages and is_allowed(packages[name])] == []


def test_an_expression_needs_all_of_its_parts_and_one_of_its_choices() -> None:
    assert is_allowed("MIT AND (Apache-2.0 WITH LLVM-exception OR GPL-3.0-only)")
    assert not is_allowed("MIT AND GPL-3.0-only")
    assert not is_allowed("GPL-3.0-only")
    assert not is_allowed("Copyright (c) somebody, all rights reserved")
    assert not is_allowed("")
