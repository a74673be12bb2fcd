"""Settings files that no parser likes: one line, whatever is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError, settings_document


@pytest.mark.parametrize(
    "text",
    [
        b"x = " + b"[" * 20_000 + b"]" * 20_000,
        b"x = " + b"9" * 5_000,
        b"x = 1\x00",
        b"\xff",
        b"x = ",
        b"a.b = 1\na = 2",
    ],
    ids=["nested", "long integer", "NUL", "no UTF-8", "no value", "twice"],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "leadline.toml"
    file.write_bytes(text)
    with pytest.raises(UsageError, match=r"leadline\.toml cannot be read: ") as refused:
        settings_document(file)
    assert "\n" not in str(refused.value)
