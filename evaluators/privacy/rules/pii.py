"""The rules of personally identifiable information: formatted numbers and addresses that belong to a person."""

from __future__ import annotations

import re
from typing import Final

from leadline.evaluators.privacy.rules import numbers as numbers
from leadline.evaluators.privacy.rules.matching import Rule

_LETTER: Final = r"A-Za-z\u00c0-\u024f\u0370-\u052f"
"""Latin, Greek and Cyrillic. Scripts that put no space between words are left out, so that an address ends."""

_WORD: Final = "A-Za-z0-9_"
_ALNUM: Final = "A-Za-z0-9"
"""Around numbers in groups, which no name of a variable holds: there an underscore is emphasis or ends a label."""
"""What must not touch a number. Letters of other scripts may: Chinese puts no space before a number."""

EMAIL: Final = Rule(
    name="email",
    what="e-mail address",
    pattern=re.compile(
        rf"(?<![{_LETTER}0-9_.%+-])[.%+-]{{0,64}}+(?P<hit>[{_LETTER}0-9_][{_LETTER}0-9_.%+-]{{0,63}}+(?<!\.)@"
        rf"(?:[{_LETTER}0-9](?:[{_LETTER}0-9-]{{0,61}}[{_LETTER}0-9])?\.){{1,8}}"
        rf"(?:xn--[A-Za-z0-9-]{{2,59}}|[{_LETTER}]{{2,63}}))(?![{_LETTER}0-9_])"
    ),
    needs=("@",),
    valid=numbers.is_mail_address,
    documented=numbers.is_reserved_mail_address,
    source="RFC 5321, RFC 6531; reserved domains: RFC 2606, RFC 6761",
    examples=(
        "Write to maria.gonzalez+invoices@mail.acme-corp.co.uk.",
        "<bob@gmail.com>",
        "'bob@gmail.com'",
        "-bob@gmail.com",
        "mailto:o'brien@tcd.ie",
        "jürgen@müller.de",
        "иван@почта.рф",
        "请联系zhang.wei@qq.com谢谢",
        "ann\uff20gmail\uff0ecom",
        "user@host.xn--p1ai",
        "Mail bob@acme.com-Bob",
    ),
    counterexamples=(
        "user@localhost",
        "a @ b.com",
        "@handle.bsky.social",
        "x@y",
        "npm i left-pad@1.3.0",
        "git@v2.0.1",
        "logo@2x.png",
    ),
    documentation=(
        "john.doe@example.com",
        "a@mail.example.org",
        "x@example.co.uk",
        "me@host.test",
        "you@yourcompany.com",
        "git@github.com:org/repo.git",
    ),
)

CREDIT_CARD: Final = Rule(
    name="credit_card",
    what="payment card number",
    pattern=re.compile(
        rf"[2-6](?<![{_ALNUM}].)(?<![0-9]\..)(?:(?<!_.)[0-9]{{13,18}}(?!_)"
        r"|[0-9]{3}(?P<by>[ .-])[0-9]{4}(?P=by)[0-9]{4}(?P=by)[0-9]{4}(?:(?P=by)[0-9]{3})?"
        r"|[0-9]{3}(?P<of>[ .-])[0-9]{6}(?P=of)[0-9]{4,5})"
        rf"(?![{_ALNUM}])(?!\.[0-9])"
    ),
    valid=numbers.is_card,
    documented=numbers.is_test_card,
    source="ISO/IEC 7812-1 (issuers, check digit)",
    examples=(
        "4539 1488 0343 6467",
        "4539-1488-0343-6467",
        "4539.1488.0343.6467",
        "Card 4539148803436467, exp. 12/27",
        "4539 1488 0343 6467 12/27",
        "_4539 1488 0343 6467_",
        "4539 1488 0343 6467 123",
        "2024 4539 1488 0343 6467",
        "卡号4539148803436467",
        "\u0664\u0665\u0663\u0669\u0661\u0664\u0668\u0668\u0660\u0663\u0664\u0663\u0666\u0664\u0666\u0667",
        "5425233430109903",
        "2223 0000 4841 0010",
        "3759 876543 21004",
        "36148900647913",
        "6011 6011 6011 6611",
        "3528 0007 0000 0000",
        "6250941006528599",
    ),
    counterexamples=(
        "4539 1488 0343 6468",
        "45391488034364679",
        "id4539148803436467",
        "id_4539148803436467",
        "0.4539148803436467",
        "4539148803436467.25",
        "4539 1488-0343 6467",
        "1700000000000",
        "12345678-1234-1234-1234-123456789012",
        "7992 7398 7130 0000",
    ),
    documentation=(
        "4111 1111 1111 1111",
        "4242424242424242",
        "3782-822463-10005",
        "5555555555554444",
        "4242 4242 4242 4242 123",
        "5555-5555-5555-4444-737",
    ),
)

CREDIT_CARD_LABELLED: Final = Rule(
    name="credit_card_labelled",
    what="payment card number",
    pattern=re.compile(
        r"(?:[Cc]ard|CARD)(?:[ _-]?(?:[Nn]umber|NUMBER|[Nn]um|[Nn]o|NO)\b| ?#| is| was)[^0-9A-Za-z]{0,12}"
        r"(?P<hit>[2-6][0-9]{3}\s{1,3}(?:[0-9]{4}\s{1,3}[0-9]{4}\s{1,3}[0-9]{4}|[0-9]{6}\s{1,3}[0-9]{4,5}))"
        rf"(?![{_ALNUM}])(?!\.[0-9])"
    ),
    needs=("ard", "ARD"),
    starts=("card", "Card", "CARD"),
    valid=numbers.is_card,
    documented=numbers.is_test_card,
    source="as credit_card, for groups in columns or lines, which only their label tells from a table of numbers",
    examples=(
        "Card number: 4539  1488  0343  6467",
        "card no. 4539\n1488\n0343\n6467\n",
        "**Card Number**\n\n4539 1488\n0343 6467",
        "Your card is 3759  876543  21004.",
        "CARD_NUMBER=4539\t1488\t0343\t6467",
    ),
    counterexamples=(
        "Card number: 4539  1488  0343  6468",
        "4539  1488  0343  6467",
        "Debit cards  4539  1488  0343  6467",
        "Card:  4539  1488  0343  6467",
        "Card numbers by year: 4539  1488  0343  6467",
        "card number 4539\n1488\n0343\n64671",
    ),
    documentation=("Card number: 4242  4242  4242  4242",),
)

US_SSN: Final = Rule(
    name="us_ssn",
    what="US social security number",
    pattern=re.compile(
        rf"[0-8](?<![{_ALNUM}].)(?<![0-9][.-].)[0-9]{{2}}-[0-9]{{2}}-[0-9]{{4}}(?![{_ALNUM}])(?![.-][0-9])"
    ),
    valid=numbers.is_ssn,
    documented=numbers.is_void_ssn,
    source="US Social Security Administration, POMS RM 10201.035 (numbers never issued)",
    examples=(
        "536-90-4399",
        "_536-90-4399_",
        "ssn_536-90-4399",
        "SSN-536-90-4399.",
        "(123-45-6789)",
        "536\u201390\u20134399",
    ),
    counterexamples=(
        "000-12-3456",
        "666-12-3456",
        "900-12-3456",
        "536-00-4399",
        "536-90-0000",
        "1536-90-4399",
        "536-90-43990",
        "536-90-4399-1",
        "536-904-399",
        "536904399",
    ),
    documentation=("078-05-1120", "219-09-9999"),
)

US_SSN_LABELLED: Final = Rule(
    name="us_ssn_labelled",
    what="US social security number",
    pattern=re.compile(
        r"(?:SSN|ssn|[Ss]ocial [Ss]ecurity|SOCIAL SECURITY)[^0-9\n]{0,40}"
        rf"(?P<hit>[0-8][0-9]{{2}}(?P<by>[ .]?)[0-9]{{2}}(?P=by)[0-9]{{4}})(?![{_WORD}])(?![.-][0-9])"
    ),
    needs=("SSN", "ssn", "ecurity", "ECURITY"),
    valid=numbers.is_ssn,
    documented=numbers.is_void_ssn,
    source="as us_ssn, for the forms that only their label tells from other numbers",
    examples=("SSN: 536904399", "ssn=536 90 4399", "My social security number is 536904399."),
    counterexamples=("SSN 800 772 1213", "SSN: 666904399", "536 90 4399", "Social Security Act of 1935"),
    documentation=("SSN 078051120",),
)

PHONE_US: Final = Rule(
    name="phone_us",
    what="US telephone number",
    pattern=re.compile(
        rf"(?<![{_WORD}.+-])(?:\+?1[ .-])?(?:\([2-9][0-9]{{2}}\) ?|[2-9][0-9]{{2}}[ .-])"
        rf"[2-9][0-9]{{2}}[ .-][0-9]{{4}}(?![{_WORD}])(?![.-][0-9])"
    ),
    documented=lambda text: "55501" in numbers.digits_of(text)[-7:],
    default=False,
    source="North American Numbering Plan",
    examples=("(212) 736-5000", "212-736-5000", "+1 212 736 5000"),
    counterexamples=("112-736-5000", "212-136-5000", "212-736-50001", "2024-01-15"),
    documentation=("(212) 555-0123",),
)

PHONE_INTERNATIONAL: Final = Rule(
    name="phone_international",
    what="international telephone number",
    pattern=re.compile(rf"(?<![{_WORD}+])\+[1-9](?:[ .()-]{{0,2}}[0-9]){{7,14}}(?![{_WORD}])", re.ASCII),
    default=False,
    source="ITU-T E.164",
    examples=("+44 20 7946 0018", "+4915112345678", "+1 (212) 736-5000"),
    counterexamples=("+12", "1+491511234567", "+0 123 456 789", "+49151123456789012"),
)

IBAN: Final = Rule(
    name="iban",
    what="bank account number (IBAN)",
    pattern=re.compile(
        rf"(?<![{_WORD}])[A-Z]{{2}}[0-9]{{2}}(?: ?[A-Z0-9]{{4}}){{2,7}}(?: ?[A-Z0-9]{{1,3}})?(?![{_WORD}])"
    ),
    valid=numbers.is_iban,
    documented=lambda text: text.replace(" ", "") in ("GB82WEST12345698765432", "DE89370400440532013000"),
    default=False,
    source="ISO 13616",
    examples=("FR14 2004 1010 0505 0001 3M02 606", "NL91ABNA0417164300"),
    counterexamples=("FR14 2004 1010 0505 0001 3M02 607", "NL91ABNA041716430", "XX91ABNA0417164300"),
    documentation=("GB82 WEST 1234 5698 7654 32",),
)

IPV4: Final = Rule(
    name="ipv4",
    what="IPv4 address",
    pattern=re.compile(rf"(?<![{_WORD}.])[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}(?![{_WORD}])(?!\.[0-9])"),
    needs=(".",),
    valid=numbers.is_ip_address,
    documented=numbers.is_nobodys_address,
    default=False,
    source="RFC 791; reserved: RFC 5735",
    examples=("from 93.184.216.34:443",),
    counterexamples=("1.2.3", "256.1.1.1", "1.2.3.4.5"),
    documentation=("192.0.2.7", "127.0.0.1", "10.1.2.3"),
)

US_ITIN: Final = Rule(
    name="us_itin",
    what="US taxpayer number (ITIN)",
    pattern=re.compile(
        rf"9(?<![{_WORD}].)(?<![0-9][.-].)[0-9]{{2}}-(?:5[0-9]|6[0-5]|7[0-9]|8[0-8]|9[0-24-9])-[0-9]{{4}}"
        rf"(?![{_WORD}])(?![.-][0-9])"
    ),
    default=False,
    source="US Internal Revenue Service, Publication 1915",
    examples=("912-70-1234",),
    counterexamples=("912-89-1234", "812-70-1234"),
)

US_PASSPORT: Final = Rule(
    name="us_passport",
    what="US passport number",
    pattern=re.compile(
        rf"(?:[Pp]assport|PASSPORT)[^0-9\n]{{0,40}}(?<![{_WORD}])(?P<hit>[A-Z]?[0-9]{{8,9}})(?![{_WORD}])"
    ),
    needs=("assport", "ASSPORT"),
    default=False,
    source="US Department of State",
    examples=("Passport no.: A12345678", "passport 483920175"),
    counterexamples=("A12345678", "passport 2024"),
)

PII_RULES: Final = (
    EMAIL,
    CREDIT_CARD,
    CREDIT_CARD_LABELLED,
    US_SSN,
    US_SSN_LABELLED,
    PHONE_US,
    PHONE_INTERNATIONAL,
    IBAN,
    IPV4,
    US_ITIN,
    US_PASSPORT,
)
"""All rules, more specific ones first."""
