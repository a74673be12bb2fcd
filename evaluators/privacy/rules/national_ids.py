"""Check digits of national identity and tax numbers; what is checked may have separators between its digits.

Sources: the issuing offices' own descriptions, as OECD's TIN pages and python-stdnum collect them; the tests compare
with the latter.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

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


NATIONAL: Final[tuple[Callable[[str], bool], ...]] = (
    is_de_tax_id, is_fr_nir, is_es_dni, is_it_fiscal_code, is_pl_pesel, is_nl_bsn, is_br_cpf, is_in_aadhaar, is_ch_ahv,
    is_se_personal_number, is_ca_sin, is_au_tfn, is_kr_rrn, is_cn_resident_id,
)  # fmt: skip
"""The checks of this module, for tables of rules."""
