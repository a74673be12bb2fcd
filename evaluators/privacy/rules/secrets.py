"""The rules of sensitive data: certificates, keys, tokens and passwords.

The examples put tokens together from pieces, so that scanners of source code do not take them for leaks.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from typing import Final

from leadline.evaluators.privacy.rules.matching import Rule

_PLACEHOLDER: Final = re.compile(
    r"example|your|placeholder|changeme|change_me|dummy|sample|redacted|insert|replace|fake|xxxx|\*\*\*|\.\.\.|…"
    r"|12345678|abcdefgh|qwerty|(.)\1{5}",
    re.IGNORECASE,
)
_CODE: Final = re.compile(r"[({\[]|^\$[A-Z_]|\\[rn]")
"""An expression or a variable in the place of a password."""

_PEM_BODY: Final = (  # headers are taken as they are found: one line can be cut into headers in very many ways
    r"(?:\\[rn]|\s){0,8}+(?>[A-Za-z0-9-]{1,40}: ?[^\n\\]{0,200}(?:\\[rn]|\s){1,8}+){0,6}+"
    r"[A-Za-z0-9+/=\\\s]{40,65536}+(?:-{2,10}END [A-Z0-9 ]{1,40}-{2,10})?"
)
_JWT_SAMPLE: Final = "eyJzdWIiOiIxMjM0NTY3ODkw"
"""How the payload of the sample token of jwt.io begins."""


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
    """Return whether a value after "password" looks like one: eight characters of three kinds, a digit among them."""
    core = text.strip(".,;:!?)]}*_`")
    kinds = (str.isdigit, str.islower, str.isupper, lambda char: not char.isalnum())
    present = [any(map(kind, core)) for kind in kinds]
    return len(core) >= 8 and present[0] and sum(present) >= 3 and not _CODE.search(core)


def is_jwt(text: str) -> bool:
    """Return whether the first part of a dotted token is the header of a JSON Web Token."""
    head = text.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def _pem(kind: str) -> re.Pattern[str]:
    return re.compile(rf"-{{2,10}} ?BEGIN {kind} ?-{{2,10}}{_PEM_BODY}")


def _token(body: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{body})(?![A-Za-z0-9_])")


_BODY: Final = "MIIBuTCCASKgAwIBAgIQNdNhtuV5GbNHYZsf\nLvM0zANBgkqhkiG9w0BAQUFADAbMRkw"
_BASE32: Final = "Q3EGVTZ5W7HRC2NX"
_HEX: Final = "3f9a1c7be2d84056b9e0a7c4d1f26583"
_LETTERS: Final = "qWmXnBvCzLkJhGfDsApOiUyTrEwQaSdFgH"
_BASE62: Final = "Uaq1B5GTqMnvA4BhclZZH8BWOLocxsd5ra3HbBrCjzgT7f9KqLw2Xy4NvR8pMjE3sD6hGzWcVb1Q"

SECRET_RULES: Final = (
    Rule(
        name="private_key",
        what="private key (PEM)",
        pattern=_pem(r"(?:[A-Z0-9]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?"),
        needs=("PRIVATE KEY",),
        source="RFC 7468, RFC 4716, RFC 4880, openssh-portable PROTOCOL.key",
        examples=(
            *(
                f"-----BEGIN {kind}PRIVATE KEY-----\n{_BODY}\n-----END {kind}PRIVATE KEY-----"
                for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")
            ),
            f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{_BODY}",
            "-----BEGIN PRIVATE KEY-----\\n" + _BODY.replace("\n", "\\n"),
        ),
        counterexamples=(
            "-----BEGIN PUBLIC KEY-----\n" + _BODY,
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "A PRIVATE KEY is secret.",
        ),
    ),
    Rule(
        name="certificate",
        what="certificate (PEM)",
        pattern=_pem(r"(?:TRUSTED |X509 )?CERTIFICATE"),
        needs=("CERTIFICATE",),
        source="RFC 7468; reference: certificates in SSL/TLS PEM format",
        examples=(f"-----BEGIN CERTIFICATE-----\n{_BODY}\n-----END CERTIFICATE-----",),
        counterexamples=("-----BEGIN CERTIFICATE-----\n...", f"-----BEGIN CERTIFICATE REQUEST-----\n{_BODY}"),
    ),
    Rule(
        name="anthropic_api_key",
        what="Anthropic API key",
        pattern=_token(r"sk-ant-[a-z0-9]{1,12}-[A-Za-z0-9_-]{60,200}"),
        needs=("-",),
        starts=("sk-ant-",),
        documented=is_placeholder,
        source="observed format",
        examples=(f"sk-ant-api03-{_BASE62}",),
        counterexamples=("sk-ant-api03-short", f"risk-ant-api03-{_BASE62}"),
        documentation=("sk-ant-api03-" + "x" * 80,),
    ),
    Rule(
        name="openai_api_key",
        what="OpenAI API key",
        pattern=_token(
            r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,200}|sk-[A-Za-z0-9]{48}"
            r"|sk-(?:[A-Za-z0-9-]{1,60}-)?[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"
        ),
        needs=("-",),
        starts=("sk-",),
        valid=has_digit_and_letter,
        documented=is_placeholder,
        source="observed formats of user, project, service-account and admin keys",
        examples=(
            f"sk-{_BASE62[:48]}",
            f"sk-proj-{_BASE62[:40]}",
            f"sk-svcacct-{_BASE62[:30]}_{_BASE62[:9]}",
            f"OPENAI_API_KEY=sk-{_BASE62[:20]}T3BlbkFJ{_BASE62[20:40]}",
        ),
        counterexamples=("sk-proj-short", f"task-{_BASE62[:48]}", "sk-circle-fade-dot-spinner-animated"),
        documentation=("sk-proj-YOUR_API_KEY_GOES_HERE_1", "sk-" + "1234567890abcdef" * 3),
    ),
    Rule(
        name="h2o_api_key",
        what="H2O.ai API key",
        pattern=_token(r"sk-[A-Za-z0-9_-]{43}"),
        needs=("-",),
        starts=("sk-",),
        valid=is_mixed,
        documented=is_placeholder,
        source="H2O Sonar's published sample: sk- and 43 characters, the length of 32 bytes in Base64",
        examples=(f"sk-{_BASE62[:43]}",),
        counterexamples=(f"sk-{_BASE62[:42]}-{_BASE62[:8]}", f"disk-{_BASE62[:43]}"),
        documentation=("sk-" + "Abc1Example" + _BASE62[:32],),
    ),
    Rule(
        name="sk_api_key",
        what="API key (sk-)",
        pattern=_token(r"sk-(?:or-v1-)?(?:[0-9a-f]{64}|[0-9a-f]{32}|[A-Za-z0-9]{32,100})"),
        needs=("-",),
        starts=("sk-",),
        valid=is_random,
        documented=is_placeholder,
        source="observed formats of OpenRouter, DeepSeek and other services that follow OpenAI's form",
        examples=(f"sk-{_HEX}", f"sk-{_BASE62[:35]}"),
        counterexamples=("sk-" + "a" * 32, "sk-3f9a1c7be2d84056"),
        documentation=("sk-" + "0123456789abcdef" * 2,),
    ),
    Rule(
        name="windows_activation_key",
        what="Windows activation key",
        pattern=re.compile(
            r"[BCDFGHJKMNPQRTVWXY2346789](?<![A-Za-z0-9-].)[BCDFGHJKMNPQRTVWXY2346789]{4}(?:-[BCDFGHJKMNPQRTVWXY2346789]{5}){4}(?![A-Za-z0-9-])"
        ),
        needs=("-",),
        valid=has_digit_and_letter,
        source="Microsoft's product keys: 25 characters of an alphabet without vowels and look-alikes",
        examples=("Use V429N-WFGWX-YVC9B-4J6C9-T83G9.",),
        counterexamples=(
            "XXXXX-XXXXX-XXXXX-XXXXX-XXXXX",
            "V429N-WFGWX-YVC9B-4J6C9",
            "V429A-WFGWX-YVC9B-4J6C9-T83G9",
            "22222-33333-44444-66666-77777",
            "V429N-WFGWX-YVC9B-4J6C9-T83G9-T83G9",
        ),
    ),
    Rule(
        name="aws_access_key_id",
        what="AWS access key id",
        pattern=_token(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
        starts=("AKIA", "ASIA", "ABIA", "ACCA"),
        documented=is_placeholder,
        source="AWS IAM user guide, unique identifiers",
        examples=(f"AKIA{_BASE32}",),
        counterexamples=("AKIAQ3EGVTZ5W7HR", "AKIAq3EGVTZ5W7HRC2NX", "CAUCASIAQ3EGVTZ5W7HRC2NX"),
        documentation=("AKIAIOSFODNN7EXAMPLE",),
    ),
    Rule(
        name="github_token",
        what="GitHub token",
        pattern=_token(r"gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
        needs=("_",),
        starts=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        documented=is_placeholder,
        source="GitHub, token formats (2021)",
        examples=(f"ghp_{_BASE62[:36]}", f"github_pat_{_BASE62[:22]}_{_BASE62[:59]}"),
        counterexamples=("ghp_short", f"xghp_{_BASE62[:36]}"),
        documentation=("ghp_" + "x" * 36,),
    ),
    Rule(
        name="gitlab_token",
        what="GitLab token",
        pattern=_token(r"gl(?:pat|dt|rt|ptt|soat)-[A-Za-z0-9_-]{20,60}"),
        needs=("-",),
        starts=("glpat-", "gldt-", "glrt-", "glptt-", "glsoat-"),
        documented=is_placeholder,
        source="GitLab, token prefixes",
        examples=(f"glpat-{_BASE62[:20]}",),
        counterexamples=("glpat-short",),
        documentation=("glpat-" + "x" * 20,),
    ),
    Rule(
        name="slack_token",
        what="Slack token",
        pattern=_token(r"xox[abeoprs]-[A-Za-z0-9-]{10,250}|xapp-[0-9]-[A-Za-z0-9-]{20,250}"),
        needs=("-",),
        starts=("xox", "xapp-"),
        valid=has_digit_and_letter,
        documented=is_placeholder,
        source="Slack, token types",
        examples=(f"xoxb-263594206564-{_BASE62[:24]}",),
        counterexamples=("xoxo-hugs-and-kisses", "xoxb-short"),
        documentation=("xoxb-your-token-1",),
    ),
    Rule(
        name="google_api_key",
        what="Google API key",
        pattern=_token(r"AIza[A-Za-z0-9_-]{35}"),
        starts=("AIza",),
        documented=is_placeholder,
        source="observed format",
        examples=(f"AIza{_BASE62[:35]}",),
        counterexamples=("AIzaShort",),
        documentation=("AIza" + "x" * 35,),
    ),
    Rule(
        name="huggingface_token",
        what="Hugging Face token",
        pattern=_token(r"hf_[A-Za-z]{34}"),
        needs=("_",),
        starts=("hf_",),
        documented=is_placeholder,
        source="observed format",
        examples=(f"hf_{_LETTERS}",),
        counterexamples=("hf_hub_download", "hf_transfer"),
        documentation=("hf_" + "x" * 34,),
    ),
    Rule(
        name="stripe_key",
        what="Stripe live key",
        pattern=_token(r"(?:sk|rk)_live_[A-Za-z0-9]{16,200}"),
        needs=("_",),
        starts=("sk_live_", "rk_live_"),
        documented=is_placeholder,
        source="Stripe, API keys",
        examples=(f"sk_live_{_BASE62[:24]}",),
        counterexamples=(f"sk_test_{_BASE62[:24]}", f"pk_live_{_BASE62[:24]}"),
        documentation=("sk_live_" + "x" * 24,),
    ),
    Rule(
        name="json_web_token",
        what="JSON Web Token",
        pattern=_token(r"eyJ[A-Za-z0-9_-]{10,4096}\.eyJ[A-Za-z0-9_-]{4,16384}\.[A-Za-z0-9_-]{10,4096}"),
        needs=(".",),
        starts=("eyJ",),
        valid=is_jwt,
        documented=is_placeholder,
        source="RFC 7519",
        examples=(f"Bearer eyJhbGciOiJIUzI1NiJ9.eyJ1c2VyIjoiNzMxIn0.{_BASE62[:43]}",),
        counterexamples=(f"eyJhbGciOiJIUzI1NiJ9.{_BASE62[:43]}", f"eyJxxxxxxxxxxxx.eyJ1c2VyIjoiNzMxIn0.{_BASE62[:43]}"),
        documentation=(f"eyJhbGciOiJIUzI1NiJ9.{_JWT_SAMPLE}In0.{_BASE62[:43]}",),
    ),
    Rule(
        name="password",
        what="password",
        pattern=re.compile(
            r"[A-Za-z]{3,10}[\"'`*_]{0,3}"
            r"(?:\s{0,3}(?::=|=>|:|=)|\s{1,3}(?:is|was))[\"'`*_]{0,3}\s{0,3}[\"'`*]{0,3}"
            r"(?P<hit>[^\s\"'`<>]{7,127}[^\s\"'`<>.,;:!?)*_])"
        ),
        starts=tuple(
            form
            for word in ("password", "passwd", "passphrase", "pwd")
            for form in (word, word.capitalize(), word.upper())
        ),
        valid=is_password,
        documented=is_placeholder,
        source="reference: passwords; the value must have eight characters of three kinds, a digit among them",
        examples=(
            "password: Tr0ub4dor&3",
            'DB_PASSWORD="hunter2-Zeta"',
            "**Password:** `Kx9!mQ2pLw`",
            "The password is Blue$ky2041.",
        ),
        counterexamples=(
            "password: ********",
            "Password: must be 8 characters",
            "password=os.environ['DB_PASSWORD_1']",
            "password: ${DB_PASSWORD_1}",
            "The password is required1",
            "passwords are hashed",
        ),
        documentation=("password: YourPassw0rd!", "password = Changeme123!"),
    ),
    Rule(
        name="secret_assignment",
        what="secret in an assignment",
        pattern=re.compile(
            r"(?:[Bb]earer\s{1,3}|[A-Za-z]{3,6}[\"'`*]{0,3}\s{0,3}(?::=|=>|:|=)[\"'`*]{0,3}\s{0,3}[\"'`*]{0,3})"
            r"(?P<hit>[A-Za-z0-9_/+=~.-]{24,200})(?![A-Za-z0-9_/+=~.-])"
        ),
        needs=("=", ":", "earer"),
        starts=("key", "KEY", "Key", "token", "TOKEN", "Token", "secret", "SECRET", "Secret", "bearer", "Bearer"),
        valid=is_random,
        documented=is_placeholder,
        source="reference: API keys, tokens; the value must look drawn by chance",
        examples=(f'api_key = "{_BASE62[:32]}"', f"SECRET_KEY={_BASE62[:40]}", f"token: {_BASE62[:24]}"),
        counterexamples=(
            "key: configuration-of-the-service",
            "public keys: see https://github.com/org/repo/blob/main/README.md",
            "token: 550e",
            "tokens: CohereV2ChatResponseUsageTokens",
            'key = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"',
        ),
        documentation=(
            "API_KEY=YOUR_API_KEY_GOES_HERE_42",
            f"token: eyJhbGciOiJIUzI1NiJ9.{_JWT_SAMPLE}In0.{_BASE62[:43]}",
        ),
    ),
)
"""All rules, more specific ones first."""
