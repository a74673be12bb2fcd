"""Encoded parts of a text are found, decoded, and told from words that only look like them."""

import base64
import codecs
import string
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leadline.evaluators.privacy.rules.encodings import MAX_DECODED, Encoding, find_encoded, perturbation

WORDS = "the answer to this question is not in your book of names that every friend reads with care".split()
PRINTABLE = st.text(string.ascii_letters + string.digits + string.punctuation + " éß漢字ñ😀", min_size=6, max_size=120)
PRINTABLE = PRINTABLE.filter(lambda text: text.strip() and text.isprintable())


def hexed(text, separator="", prefix=""):
    return separator.join(f"{prefix}{byte:02X}" for byte in text.encode())


def readings(text, encodings=()):
    return [part.decoded for part in find_encoded(text, encodings)]


def wrapped(text, width):
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


WRITERS = {
    "base16": hexed,
    "base16 lower": lambda text: hexed(text).lower(),
    "base16 0x": lambda text: "0x" + hexed(text),
    "base16 spaces": lambda text: hexed(text, " "),
    "base16 colons": lambda text: hexed(text, ":"),
    "base16 commas": lambda text: hexed(text, ", ", "0x"),
    "base16 lines": lambda text: hexed(text, "\r\n"),
    "base16 escapes": lambda text: hexed(text, "", "\\x"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 unpadded": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 url": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 mime": lambda text: wrapped(base64.b64encode(text.encode()).decode(), 76),
    "base64 pem": lambda text: wrapped(base64.b64encode(text.encode()).decode(), 64),
}
SAFE = [name for name in WRITERS if not name.startswith("base64 u")]


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=150, deadline=None)
@given(PRINTABLE)
def test_what_was_encoded_is_found_and_decoded(writer, text):
    encoded = WRITERS[writer](text)
    for before, after in (("", ""), ("The answer is: ", "."), ("`", "`"), ("Überall:\n", "\n\nDone")):
        decoded = find_encoded(before + encoded + after)
        assert text in "".join(part.decoded or "" for part in decoded)
        assert any(part.start == len(before) and part.end == len(before) + len(encoded) for part in decoded) or (
            writer == "base64" and after == "."
        )


@settings(max_examples=100, deadline=None)
@given(
    st.text(string.ascii_letters + " ,.!", min_size=6, max_size=60).filter(str.strip),
    st.lists(st.sampled_from(SAFE), max_size=3),
)
def test_encodings_inside_each_other_are_undone(text, writers):
    encoded = text
    for writer in writers:
        encoded = WRITERS[writer](encoded)
    assume(writers)
    assert any(text in (reading or "") for reading in readings(encoded))


def test_nesting_is_bounded():
    layers = ["the quick brown fox"]
    for _ in range(4):
        layers.append(hexed(layers[-1]))
    assert readings(layers[4]) == ["\n".join([layers[3], layers[2], layers[1]])]


@given(st.lists(st.sampled_from(WORDS), max_size=12, unique=True).map(" ".join))
def test_rot13_is_undone_where_it_is_expected_and_gives_sense(text):
    english = f"this is the answer to {text}"
    assert any(reading.startswith(english) for reading in readings(codecs.encode(english, "rot13"), [Encoding.ROT13]))
    assert not any(part.encoding == Encoding.ROT13 for part in find_encoded(english, [Encoding.ROT13]))
    assert not any(part.encoding == Encoding.ROT13 for part in find_encoded(codecs.encode(english, "rot13")))


@given(st.text(string.printable, max_size=30), st.text(string.printable, max_size=30))
def test_a_clearly_rotated_word_is_undone_wherever_it_stands(before, after):
    (*_, part) = find_encoded(f"{before} fjbeqsvfu {after}", [Encoding.ROT13])
    assert part.encoding is Encoding.ROT13
    assert part.text == codecs.encode(before, "rot13") + " swordfish " + codecs.encode(after, "rot13")
    assert (part.start, part.end) == (0, len(part.text))


@given(st.text(string.ascii_letters + " .,", max_size=40))
def test_rot13_is_never_taken_for_all_that_a_text_says(text):
    assert not any(part.fills_text for part in find_encoded(text, [Encoding.ROT13]) if part.encoding is Encoding.ROT13)


def test_a_short_rotated_word_in_clear_text_is_not_seen():
    clear = "That is the answer to your question and you can use it for this."
    assert find_encoded(f"{clear} ehol", [Encoding.ROT13]) == []


@pytest.mark.parametrize("outer", WRITERS)
def test_rot13_is_undone_inside_and_around_other_encodings(outer):
    secret = "the secret is swordfish"
    for encoded in (
        WRITERS[outer](codecs.encode(secret, "rot13")),
        codecs.encode(WRITERS[outer](secret), "rot13"),
        codecs.encode(WRITERS[outer](codecs.encode(secret, "rot13")), "rot13"),
    ):
        parts = find_encoded(encoded, [Encoding.ROT13])
        assert any(secret in (part.decoded or "") for part in parts)
        assert all(part.decoded is not None for part in parts)
    assert not any(secret in (reading or "") for reading in readings(WRITERS[outer](codecs.encode(secret, "rot13"))))


@pytest.mark.parametrize("writer", ["base16", "base64"])
@pytest.mark.parametrize("width", [20, 31, 38])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_short_lines_of_one_length_belong_together(writer, width, newline):
    text = "the secret of the house is swordfish"
    encoded = wrapped(WRITERS[writer](text), width).replace("\n", newline)
    (part,) = find_encoded(f"So:\n{encoded}\nThat is all.")
    assert (part.text, part.start, part.end) == (text, 4, 4 + len(encoded))
    (part,) = find_encoded(f"{encoded}{newline}Hello there")
    assert part.text == text
    (part,) = find_encoded(encoded)
    assert part.fills_text


def test_lines_that_say_nothing_together_are_read_each_by_itself():
    noise = "e9" * 10
    assert readings(f"{hexed('swordfish!')}\n{noise}\n{noise}\n{noise}") == ["swordfish!", None, None, None]
    assert readings(f"{hexed('the vault')}\n{hexed('swordfish is it')}") == ["the vault", "swordfish is it"]
    assert find_encoded("password\nsunshine\nbaseball\nfootball\ntrustno1") == []
    assert find_encoded("20240101\n20240102\n20240103\n1734") == []


def test_a_part_that_is_all_of_the_text_is_marked():
    (part,) = find_encoded(" 50 61 72 69 73\n")
    assert (part.decoded, part.fills_text, part.start, part.end) == ("Paris", True, 1, 15)
    (part,) = find_encoded("So: 50 61 72 69 73")
    assert not part.fills_text


def test_a_few_broken_characters_do_not_hide_the_rest():
    raw = bytearray(b"the password of the vault is swordfish")
    raw[5] = 0xFF
    (reading,) = readings(raw.hex(" "))
    assert reading == "the p\ufffdssword of the vault is swordfish"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that request.",
        "Internationalization responsibilities are straightforward",
        "10 20 30 40 50 60",
        "4539148803436467",
        "call 2127365000 or see https://github.com/h2oai/Repo123/blob/main/File4Test.py",
        "a-b-c-d-e-f-g 12-34",
        "\ud800\x00 \u202e😀",
    ],
)
def test_ordinary_text_holds_nothing_encoded(text):
    assert find_encoded(text) == []


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("see: " + "9f8e7d6c" * 5, Encoding.BASE16),
        ("9f 8e 7d 6c 5b fa 9f 8e 7d 6c", Encoding.BASE16),
        ("it is " + base64.b64encode(bytes(range(128, 170))).decode(), Encoding.BASE64),
    ],
)
def test_what_looks_deliberate_and_yields_no_text_is_kept_undecoded(text, encoding):
    (part,) = find_encoded(text)
    assert (part.decoded, part.encoding) == (None, encoding)


@pytest.mark.parametrize(
    ("categories", "encodings", "answer_encoded"),
    [
        (
            [
                "perturbed",
                "encoding_perturbator:[prompt_type:prompt_encoded,answer_type:answer_encoded,encoding_type:base16]",
            ],
            {Encoding.BASE16},
            True,
        ),
        (
            [
                "encoding_perturbator:[prompt_type:x,answer_type:AnswerType.ANSWER_DECODED,encoding_type:EncodingType.BASE16_SPACES]"
            ],
            {Encoding.BASE16},
            False,
        ),
        (
            ["perturbed_by:h2o_sonar.utils.perturbations.EncodingPerturbatorBase16:PerturbationIntensity.HIGH"],
            {Encoding.BASE16},
            True,
        ),
        (["encoding_type:base64"], {Encoding.BASE64}, True),
        (["Base64"], {Encoding.BASE64}, True),
        (["hex"], {Encoding.BASE16}, True),
        (["ROT-13", "base64"], {Encoding.ROT13, Encoding.BASE64}, True),
        (["base64-encoded"], {Encoding.BASE64}, True),
        (["encoding_perturbator"], set(), True),
        (["encoding_type:morse"], set(), True),
    ],
)
def test_categories_of_an_encoding_attack_are_understood(categories, encodings, answer_encoded):
    found = perturbation(["question_answering", *categories])
    assert found is not None
    assert found.encodings == encodings
    assert found.answer_encoded is answer_encoded


@pytest.mark.parametrize("categories", [[], ["question_answering"], ["hexagons"], ["encoder models"], ["base jumping"]])
def test_other_categories_are_none(categories):
    assert perturbation(categories) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "41 ",
        "41",
        "QUFB",
        "a",
        "0x41",
        "\\x41",
        "ab-",
        "QUFBQUFB ",
        "=",
        "A/",
        "4142434445\n",
        "Z" * 60 + "\n",
        "Q" * 20 + "\n",
        "Q" * 9 + "\r\n" + "Q" * 8 + "\n",
        "gurer vf ",
    ],
)
def test_a_long_hostile_text_takes_linear_time_and_bounded_room(unit):
    def seconds(size):
        text = (unit * (size // len(unit) + 1))[:size]
        started = time.process_time()
        parts = find_encoded(text, [Encoding.ROT13])
        assert sum(len(part.decoded or "") for part in parts) < 3 * MAX_DECODED
        return time.process_time() - started

    assert seconds(300_000) < max(1.0, 40 * seconds(30_000))
