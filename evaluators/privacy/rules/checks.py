"""Checks of what a regular expression matched: can it be a real one, and is it a well-known example?

The numbers are not checked by python-stdnum: it refuses void social security numbers, which are documentation examples
here, and IBANs whose account does not have its country's form; the tests compare with it. Check digits of national
identity and tax numbers are those of the issuing offices' own descriptions, as OECD's TIN pages and python-stdnum
collect them; what is checked may have separators between its digits.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

_BRANDS: Final = (
    (re.compile(r"4"), (16, 19)),  # Visa; its 13-digit numbers were withdrawn and are as long as bar codes
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),  # Mastercard
    (re.compile(r"3[47]"), (15,)),  # American Express
    (re.compile(r"6011|64[4-9]|65|62"), (16, 17, 18, 19)),  # Discover, UnionPay
    (re.compile(r"30[0-5]|309|3[689]"), (14, 16, 19)),  # Diners Club
    (re.compile(r"35(?:2[89]|[3-8])"), (16, 17, 18, 19)),  # JCB
    (re.compile(r"5018|5020|5038|5893|6304|6759|676[1-3]"), (16, 18, 19)),  # Maestro
)
_TEST_CARDS: Final = frozenset(  # published by payment processors
    """
    4242424242424242 4012888888881881 4000056655665556 4012000033330026 4917610000000000 4988438843884305
    5105105105105100 2223003122003222 5200828282828210 5123456789012346 5610591081018250 5019717010103742
    6011000990139424 6011981111111113 378282246310005 371449635398431 378734493671000 30569309025904
    38520000023237 3056930009020004 36227206271667 3566002020360505 3530111333300000
    """.split()
)
_VOID_SSNS: Final = frozenset({"078051120", "219099999", "457555462"})
_RESERVED_DOMAIN: Final = re.compile(
    r"(?:^|\.)(?:example(?:\.(?:com|net|org|edu|(?:com?\.)?[a-z]{2}))?|test|invalid|localhost|local"
    r"|(?:your-?|my-?)?(?:domain|company)\.(?:com|org|net))$"
)
_FILE_NAME: Final = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|ico|pdf|css|js|ts|json|html?)$", re.IGNORECASE)
_RESERVED_ADDRESS: Final = re.compile(
    r"0\.|10\.|127\.|169\.254\.|172\.(?:1[6-9]|2[0-9]|3[01])\.|192\.168\.|192\.0\.[02]\.|198\.51\.100\.|203\.0\.113\."
    r"|100\.(?:6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])\.|198\.1[89]\.|22[4-9]\.|2[3-5][0-9]\."
    r"|(?:8\.8\.(?:8\.8|4\.4)|1\.(?:1\.1\.1|0\.0\.1)|1\.2\.3\.4)\Z"  # public resolvers, and a sample
)
_SAMPLE_IBANS: Final = frozenset(  # of the SWIFT registry and of pages that explain the format
    """
    GB82WEST12345698765432 GB29NWBK60161331926819 GB33BUKB20201555555555 GB94BARC10201530093459
    DE89370400440532013000 DE91100000000123456789 DE75512108001245126199 FR1420041010050500013M02606
    FR7630006000011234567890189 NL91ABNA0417164300 NL02ABNA0123456789 ES9121000418450200051332
    ES7921000813610123456789 IT60X0542811101000000123456 BE68539007547034 BE71096123456769 CH9300762011623852957
    CH5604835012345678009 AT611904300234573201 PL61109010140000071219812874 PT50000201231234567890154
    SE4550000000058398257466 DK5000400440116243 NO9386011117947 FI2112345600000785 IE29AIBK93115212345678
    LU280019400644750000 GR1601101250000000012300695 SA0380000000608010167519 AE070331234567890123456
    """.split()
)
_COUNTRY_CODE: Final = re.compile(
    r"1|7|2[07]|2[1-69][0-9]|3[0-469]|3[578][0-9]|4[013-9]|42[0-9]|5[1-8]|5[09][0-9]|6[0-6]|6[7-9][0-9]|8[1246]"
    r"|8[0578][0-9]|9[0-58]|9[67][0-9]|99[2-68]"
)
"""Country codes of ITU-T E.164."""
_NORTH_AMERICAN: Final = re.compile(r"1?[2-9][0-9]{2}[2-9][0-9]{6}")
_THOUSANDS: Final = re.compile(r"[1-9][0-9]{0,2}(?: [0-9]{3})+")
_IBAN_LENGTHS: Final = {
    part[:2]: int(part[2:])
    for part in """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29
    ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
    LB28 LC32 LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29
    RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
    """.split()
}
_PLACEHOLDER: Final = re.compile(
    r"example|your|placeholder|changeme|change_me|dummy|sample|redacted|insert|replace|fake|xxxx|\*\*\*|\.\.\.|…"
    r"|12345678|abcdefgh|qwerty|(.)\1{5}",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    r"(?:19|20)[0-9]{2}([-./ ])[01]?[0-9]\1[0-3]?[0-9]|[0-3]?[0-9]([-./])[01]?[0-9]\2(?:19|20)[0-9]{2}"
)
_CODE: Final = re.compile(r"[({\[]|^\$[A-Z_]|\\[rn]")
"""Signs of an expression or a variable in the place of a password."""
_JWT_SAMPLE: Final = "eyJzdWIiOiIxMjM0NTY3ODkw"
"""Beginning of the payload of the sample token of jwt.io."""

_ANY_PASSWORD: Final = re.compile(
    r"[$%<{\[*]|(?i:my|your|the|db|some)?[_-]?(?i:pass(?:word|wd)?|pwd?|secret|token|changeme|guest|postgres|root|test)[0-9]{0,3}\Z"
)


_SEPARATORS: Final = re.compile(r"[^0-9A-Z]")
_DNI_LETTERS: Final = "TRWAGMYFPDXBNJZSQVHLCKE"
_ODD_PLACES: Final = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16,
         10, 22, 25, 24, 23),
        strict=True,
    )
)  # fmt: skip
"""What characters at the first, third, … place of an Italian fiscal code count (decree of 23 December 1976)."""
_VERHOEFF: Final = (  # J. Verhoeff (1969): the dihedral group D5, and the permutation of each place
    ("0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043",
     "8765932104", "9876543210"),
    ("0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258"),
)  # fmt: skip


def digits_of(text: str) -> str:
    """Return the ASCII digits of a text."""
    return "".join(char for char in text if "0" <= char <= "9")


def is_card(text: str) -> bool:
    """Return whether digits with separators are a payment card's number: issuer, length and check digit.

    Of digits in groups the first 16 may be the number and the rest the card's verification code.
    """
    return any(map(_is_card_number, _card_numbers(text)))


def _card_numbers(text: str) -> tuple[str, ...]:
    digits = digits_of(text)
    return (digits, digits[:16]) if len(digits) > 16 and len(digits) < len(text) else (digits,)


def _is_card_number(digits: str) -> bool:
    return any(len(digits) in lengths and issuer.match(digits) for issuer, lengths in _BRANDS) and luhn(digits)


def is_card_of_any_issuer(text: str) -> bool:
    """Return whether digits have the check digit of a card's number, and are not all alike."""
    return len(set(text)) > 1 and luhn(text)


def is_test_card(text: str) -> bool:
    """Return whether a card's number is one that payment processors publish for tests."""
    return any(
        len(set(digits)) <= 2 or digits.startswith("4000000") or digits in _TEST_CARDS for digits in _card_numbers(text)
    )


def is_ssn(text: str) -> bool:
    """Return whether a US social security number can have been issued: no area 000, 666 or 9xx, no part of zeros."""
    digits = digits_of(text)
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def is_void_ssn(text: str) -> bool:
    """Return whether a social security number is one that was printed in advertisements and is void."""
    return digits_of(text) in _VOID_SSNS


def is_phone_length(text: str) -> bool:
    """Return whether a number has as many digits as a telephone number, its extension apart, and begins as no date."""
    digits = digits_of(text.partition("x")[0])
    return 7 <= len(digits) <= 15 and _DATE.match(text) is None


def is_dialled_phone(text: str) -> bool:
    """Return whether a number is written as one that is dialled.

    It is in groups, has a 0, ``+`` or ``(`` first, or ten digits of North America's. Thousands in groups are amounts,
    unless they have nine digits as Spain's numbers.
    """
    written = text[0] in "0+(" or not text.isdigit() or _NORTH_AMERICAN.fullmatch(text) is not None
    amount = len(digits_of(text)) != 9 and _THOUSANDS.fullmatch(text) is not None
    return written and not amount and is_phone_length(text)


def is_international_phone(text: str) -> bool:
    """Return whether digits after ``+`` or ``00`` begin with a country's code and have its length.

    Eleven digits in North America, Russia and Kazakhstan. After ``00`` numbers are often padded: there the code 1 or 7
    needs groups, and any other groups or twelve digits.
    """
    digits = digits_of(text.partition("x")[0])
    plus, grouped = text.startswith("+"), not text.lstrip("+").isdigit()
    digits = digits if plus else digits[2:]
    if digits[0] in "17":
        return len(digits) == 11 and (plus or grouped)
    return 8 <= len(digits) <= 15 and (plus or grouped or len(digits) >= 10) and _COUNTRY_CODE.match(digits) is not None


def is_national_phone(text: str) -> bool:
    """Return whether a number with a trunk prefix has 9 to 12 digits."""
    return 9 <= len(digits_of(text)) <= 12


def is_global_ipv6_address(text: str) -> bool:
    """Return whether a text is an IPv6 address that belongs to a host of the public internet."""
    try:
        return ipaddress.IPv6Address(text).is_global
    except ValueError:
        return False


def is_mail_address(text: str) -> bool:
    """Return whether what looks like an e-mail address is not the name of a file, such as ``logo@2x.png``."""
    return _FILE_NAME.search(text) is None


def is_reserved_mail_address(text: str) -> bool:
    """Return whether an e-mail address is a placeholder: a reserved domain, ``yourcompany.com``, a git remote."""
    name, _, domain = text.rpartition("@")
    return name == "git" or _RESERVED_DOMAIN.search(domain.lower()) is not None


def is_iban(text: str) -> bool:
    """Return whether an IBAN has its country's length and check digits (ISO 13616, ISO 7064 MOD 97-10)."""
    iban = compact(text)
    length = _IBAN_LENGTHS.get(iban[:2])
    if length is None or len(iban) < length:
        return False
    moved = iban[4:length] + iban[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def is_ip_address(text: str) -> bool:
    """Return whether four numbers are an IPv4 address: at most 255, without zeros before them.

    Numbers that are all below 20 are rather those of a version or a section.
    """
    parts = text.split(".")
    numbers = [int(part) for part in parts]
    plain = all(part == str(number) for part, number in zip(parts, numbers, strict=True))
    return plain and max(numbers) <= 255 and (max(numbers) >= 20 or is_reserved_ip_address(text))


def is_reserved_ip_address(text: str) -> bool:
    """Return whether an IPv4 address is private, reserved, for documentation, or a well-known resolver (RFC 6890)."""
    return _RESERVED_ADDRESS.match(text) is not None


def is_fictional_phone_number(text: str) -> bool:
    """Return whether a telephone number is reserved for fiction, or a row of digits.

    North America has 555-0100 to 555-0199 and no area 555, the United Kingdom 01632 960000 to 960999.
    """
    digits = digits_of(text.partition("x")[0])
    american = digits[-10:] if len(digits) in (10, 11) else ""
    return (
        digits[-7:].startswith("55501")
        or american.startswith("555")
        or digits[-11:-3].endswith("1632960")
        or digits in ("1234567890", "11234567890", "0123456789", "12345678901")
        or len(set(digits)) == 1
    )


def is_sample_iban(text: str) -> bool:
    """Return whether an IBAN is one that documentation of the format shows."""
    return compact(text) in _SAMPLE_IBANS


def is_placeholder(text: str) -> bool:
    """Return whether a secret is one for show: ``YOUR_KEY_HERE``, ``sk-xxxxxxxx``, ``AKIAIOSFODNN7EXAMPLE``."""
    return len(set(text)) < 6 or _JWT_SAMPLE in text or _PLACEHOLDER.search(text) is not None


def is_mixed(text: str) -> bool:
    """Return whether a token has digits, lower-case and upper-case letters."""
    return any(map(str.isdigit, text)) and any(map(str.islower, text)) and any(map(str.isupper, text))


def has_digit_and_letter(text: str) -> bool:
    """Return whether a text has a digit and a letter."""
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def is_random(text: str) -> bool:
    """Return whether a token looks drawn by chance: two digits, a letter and 3.5 bits of entropy per character."""
    counts = Counter(text).values()
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    return entropy >= 3.5 and sum(map(str.isdigit, text)) >= 2 and any(map(str.isalpha, text))


def is_password(text: str) -> bool:
    """Return whether a value after "password" looks like one.

    It has eight characters of three kinds, a digit among them; or ten, with several digits or one before letters.
    """
    core = text.strip(".,;:!?)]}*_`")
    kinds = (str.isdigit, str.islower, str.isupper, lambda char: not char.isalnum())
    present = [any(map(kind, core)) for kind in kinds]
    mixed = len(core) >= 10 and sum(present) >= 2 and re.search("[0-9]{2}|[0-9][A-Za-z]{2}", core) is not None
    return len(core) >= 8 and present[0] and (sum(present) >= 3 or mixed) and not _CODE.search(core)


def is_basic_credentials(text: str) -> bool:
    """Return whether the text of a header ``Authorization: Basic`` is a name and a password (RFC 7617)."""
    return _credentials(text).find(":") > 0


def is_example_credentials(text: str) -> bool:
    """Return whether the password of a header ``Authorization: Basic`` is one that documentation shows."""
    return is_example_password(_credentials(text).partition(":")[2])


def is_example_password(text: str) -> bool:
    """Return whether a password stands for any: a variable, a word for passwords, or a placeholder."""
    return _ANY_PASSWORD.match(text) is not None or is_placeholder(text)


def _credentials(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (ValueError, binascii.Error):
        return ""


def is_jwt(text: str) -> bool:
    """Return whether the first part of a dotted token is the header of a JSON Web Token."""
    head = text.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def compact(text: str) -> str:
    """Return the digits and capital letters of a number, letters in upper case."""
    return _SEPARATORS.sub("", text.upper())


def luhn(digits: str) -> bool:
    """Return whether the last of some ASCII digits is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        digit = ord(char) - 48
        if place % 2:
            digit = digit * 2 - 9 if digit > 4 else digit * 2
        total += digit
    return total % 10 == 0


def is_de_tax_id(text: str) -> bool:
    """Return whether eleven digits are a German Steuer-ID: one digit occurs twice or thrice, ISO 7064 MOD 11,10."""
    digits = compact(text)
    product = 10
    for char in digits[:10]:
        product = ((int(char) + product - 1) % 10 + 1) * 2 % 11
    again = [count for count in Counter(digits[:10]).values() if count > 1]
    return digits[0] != "0" and again in ([2], [3]) and (11 - product) % 10 == int(digits[10])


def is_fr_nir(text: str) -> bool:
    """Return whether a French social security number has its key, 97 less the rest; 2A and 2B are Corsica."""
    number = compact(text)
    body = number[:13].replace("2A", "19").replace("2B", "18")
    return body.isdigit() and 97 - int(body) % 97 == int(number[13:])


def is_es_dni(text: str) -> bool:
    """Return whether a Spanish DNI or NIE has its letter, by the rest of a division by 23; X, Y, Z are 0, 1, 2."""
    number = compact(text)
    digits = number[:-1].translate(str.maketrans("XYZ", "012"))
    return _DNI_LETTERS[int(digits) % 23] == number[-1]


def is_it_fiscal_code(text: str) -> bool:
    """Return whether an Italian codice fiscale has its check letter."""
    code = compact(text)
    total = sum(
        _ODD_PLACES[char] if place % 2 == 0 else int(char) if char.isdigit() else ord(char) - 65
        for place, char in enumerate(code[:15])
    )
    return chr(65 + total % 26) == code[15]


def is_pl_pesel(text: str) -> bool:
    """Return whether eleven digits are a Polish PESEL: a birth date (the century is in the month), a check digit."""
    digits = compact(text)
    century = (1900, 2000, 2100, 2200, 1800)[int(digits[2:4]) // 20]
    return _is_date(century + int(digits[:2]), int(digits[2:4]) % 20, int(digits[4:6])) and (
        _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0
    )


def is_nl_bsn(text: str) -> bool:
    """Return whether nine digits pass the Dutch test of eleven."""
    digits = compact(text)
    return int(digits) > 0 and _weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def is_br_cpf(text: str) -> bool:
    """Return whether eleven digits have the two check digits of a Brazilian CPF, and are not all alike."""
    digits = compact(text)
    for last in (9, 10):
        rest = _weighted(digits[:last], range(last + 1, 1, -1)) * 10 % 11 % 10
        if rest != int(digits[last]):
            return False
    return len(set(digits)) > 1


def is_in_aadhaar(text: str) -> bool:
    """Return whether twelve digits have Verhoeff's check digit, as an Indian Aadhaar number."""
    group, permutation = _VERHOEFF
    check = 0
    for place, char in enumerate(reversed(compact(text))):
        check = int(group[check][int(permutation[place % 8][int(char)])])
    return check == 0


def is_ch_ahv(text: str) -> bool:
    """Return whether thirteen digits of Switzerland's (756) have the check digit of an EAN-13."""
    return _weighted(compact(text), (1, 3) * 6 + (1,)) % 10 == 0


def is_se_personal_number(text: str) -> bool:
    """Return whether a Swedish personnummer has a birth date (or a coordination number's, 60 days later) and Luhn's."""
    digits = compact(text)[-10:]
    day = int(digits[4:6])
    return _is_date(2000 + int(digits[:2]), int(digits[2:4]), day - 60 if day > 60 else day) and luhn(digits)


def is_ca_sin(text: str) -> bool:
    """Return whether nine digits have the check digit of a Canadian social insurance number; none begin with 0 or 8."""
    digits = compact(text)
    return digits[0] not in "08" and luhn(digits)


def is_au_tfn(text: str) -> bool:
    """Return whether nine digits have the check digit of an Australian tax file number."""
    digits = compact(text)
    return int(digits) > 0 and _weighted(digits, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def is_kr_rrn(text: str) -> bool:
    """Return whether a Korean registration number has a birth date, the century's digit and the check digit."""
    digits = compact(text)
    century = {"9": 1800, "0": 1800, "1": 1900, "2": 1900, "5": 1900, "6": 1900}.get(digits[6], 2000)
    born = _is_date(century + int(digits[:2]), int(digits[2:4]), int(digits[4:6]))
    return born and (11 - _weighted(digits[:12], (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10 == int(digits[12])


def is_cn_resident_id(text: str) -> bool:
    """Return whether a Chinese resident number (GB 11643) has a birth date and its check character, X being ten."""
    number = compact(text)
    if not _is_date(int(number[6:10]), int(number[10:12]), int(number[12:14])):
        return False
    total = _weighted(number[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    return "10X98765432"[total % 11] == number[17]


def _weighted(digits: str, weights: Iterable[int]) -> int:
    return sum(int(char) * weight for char, weight in zip(digits, weights, strict=True))


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        datetime.date(year, month, day)
    except ValueError:
        return False
    return True


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    name: check
    for name, check in globals().items()
    if name.startswith(("is_", "has_")) and getattr(check, "__module__", "") == __name__
}
"""The checks that tables of rules name: all of this module."""
