"""Requests from outside: what a webhook, an event, a form or a deployment's parameters may name.

A person at a terminal may name any host and any callable. Whoever only reaches Prefect's API may name what the
deployment's own files name as judges and targets (``leadline.toml`` and the targets file in the worker's folder), and
what ``[service]`` of that ``leadline.toml`` allows. All is checked before the first request is made.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from leadline.evaluators.ground import FILE, OFFLINE, ErrorCode, UsageError, from_home, settings_table
from leadline.evaluators.judge_client.choice import BASE_VARIABLE, LOCAL, configured_judges, find_evaluator_files
from leadline.evaluators.models.weights import PINNED
from leadline.evaluators.settings import JudgeConfig
from leadline.flows.shared.job import Job
from leadline.flows.shared.judge_access import judges_of
from leadline.flows.shared.settings import JudgeAccess, Judges, Models, is_dask
from leadline.tasks.collect.targets import Target
from leadline.tasks.collect.templates import variables_of
from leadline.tasks.load.source import in_bucket
from leadline.tasks.store.store import STORE_VARIABLE

FIELDS: Final = (
    "allowed_hosts", "allowed_models", "allowed_callables", "allowed_key_variables", "allowed_files", "allowed_stores",
    "allow_pickle",
)  # fmt: skip
_SEARCH_TOOL: Final = "search_tool"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The names that requests from outside may use: those of ``[service]``, and the deployment's own.

    Attributes:
        hosts: Hosts, with or without a port; patterns such as ``*.example.com`` reach public addresses only.
        models: Model names, or patterns of them.
        callables: ``package.module:function`` of targets and search tools, commands of MCP servers, or patterns.
        key_variables: Environment variables with API keys.
        files: Files and folders outside of the worker's folder; Python files must be named here in any case.
        stores: Stores besides the worker's own.
        pickle: Whether pickled weights may be loaded.
    """

    hosts: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    callables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    pickle: bool = False

    def check_host(self, what: str, host: str, port: int | None) -> None:
        """Refuse a host that is not allowed, or that is allowed by a pattern and is none of the public internet.

        Args:
            what: Who names it, for the refusal.
            host: Its name or address, in any form.
            port: Its port, if one is given.

        Raises:
            UsageError: It is refused.
        """
        names = (host.lower(), f"{host.lower()}:{port}") if port else (host.lower(),)
        if any(name in map(str.lower, self.hosts) for name in names):
            return
        listed = any(fnmatchcase(name, pattern.lower()) for name in names for pattern in self.hosts)
        internal = [address for address in addresses_of(host) if not is_public(address)] if listed else []
        if listed and not internal:
            return
        why = f" (it is {internal[0]}, an internal address, which a pattern does not allow)" if internal else ""
        raise _refused(f"{what} names the host {host[:200]}{why}", "allowed_hosts", host)

    def check_address(self, what: str, address: str) -> None:
        """Refuse an address whose host is not allowed.

        Args:
            what: Who names it, for the refusal.
        """
        try:
            parts = urlsplit(address)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise _refused(f"{what} names an address that cannot be read", "allowed_hosts", "HOST") from None
        self.check_host(what, host, port)

    def check_named(self, what: str, name: str, field: str) -> None:
        """Refuse a name that is not listed.

        Args:
            what: Who names it, for the refusal.
            field: Where it would be listed, such as ``allowed_callables``.
        """
        if not any(fnmatchcase(name, pattern) for pattern in getattr(self, field.removeprefix("allowed_"))):
            raise _refused(f"{what} names {name[:200]}", field, name)

    def check_file(self, what: str, file: str, *, code: bool = False) -> None:
        """Refuse a file outside of the worker's folder, and any Python file, unless it is listed.

        Args:
            what: What it is, for the refusal.
        """
        path = from_home(file).absolute().resolve()
        if any(path.is_relative_to(from_home(each).absolute().resolve()) for each in self.files):
            return
        here = Path.cwd().resolve()
        hidden = path.is_relative_to(here) and any(part.startswith(".") for part in path.relative_to(here).parts)
        if code or hidden or not path.is_relative_to(here):
            raise _refused(f"The request names the {what} {file[:200]}", "allowed_files", file)


def allowed() -> Allowed:
    """Return what requests from outside may name in this process's folder.

    Raises:
        UsageError: ``[service]`` of ``leadline.toml`` cannot be understood.
    """
    table = settings_table("service", FIELDS)
    lists = {name: _texts(table, name) for name in FIELDS if name != "allow_pickle"}
    if not isinstance(table.get("allow_pickle", False), bool):
        raise UsageError(f"{FILE}, [service] allow_pickle is true or false.", code=ErrorCode.CONFIG_CONTENT)
    return Allowed(
        **{name.removeprefix("allowed_"): values for name, values in lists.items()},
        pickle=table.get("allow_pickle", False),
    )


def check_request(job: Job[Any, Any, Any, Any], config: Any) -> None:
    """Refuse the request for a job that names what requests from outside may not.

    A form's fields are known by their names, so that none is forgotten in a new form; a job checks what only it has.

    Raises:
        UsageError: It does.
    """
    rules, params = allowed(), getattr(config, "params", {})
    check_store(rules, config.store)
    for place in _places_in_buckets(config):
        check_place(rules, place)
    for file in getattr(config, "evaluator_files", ()):
        rules.check_file("evaluators file", file, code=True)
    if folder := getattr(config, "evaluators_dir", None):
        rules.check_file("folder of evaluators", folder)
    if output := getattr(config, "output", None):
        rules.check_file("folder for results", output)
    for tool in _search_tools(params):
        _check_search_tool(rules, tool)
    if isinstance(models := getattr(config, "models", None), Models):
        _check_weights(rules, models, params)
    if is_dask(dispatch := getattr(config, "dispatch", "")) and "://" in dispatch:
        rules.check_address("The request", dispatch)
    if isinstance(judges := getattr(config, "judges", None), JudgeAccess):
        check_judges(rules, judges)
    job.check_outside(config, rules)


def check_judges(rules: Allowed, access: JudgeAccess) -> None:
    """Refuse judges that requests from outside may not name.

    Args:
        access: What the request says of its judges.

    Raises:
        UsageError: One is not allowed.
    """
    canaries = access.canaries if isinstance(access, Judges) else None
    for what, file in (("file of judges", access.config), ("file of canaries", canaries)):
        if file:
            rules.check_file(what, file)
    if access.config and Path(access.config).resolve() != FILE.resolve():
        for file in find_evaluator_files(Path(access.config)):
            rules.check_file("evaluators file", file, code=True)
    own = configured_judges(Path(access.config) if access.config else None, os.environ)
    places = (*(each.api_base for each in own), os.environ.get(BASE_VARIABLE))
    rules = replace(rules, hosts=(*rules.hosts, *(urlsplit(place).netloc for place in places if place)))
    for judge in judges_of(access):
        if any(_same(judge, each) for each in own):
            continue
        if judge.kind == "local":
            rules.check_named("The judge", f"{LOCAL}{judge.model}", "allowed_models")
        else:
            _check_model(rules, "The judge", judge.model, judge.api_base, judge.api_key_env)


def check_target(rules: Allowed, target: Target, own: Sequence[Target]) -> None:
    """Refuse a target that requests from outside may not name.

    Args:
        own: The targets of the deployment's own file, where it is one of these.

    Raises:
        UsageError: It is not allowed.
    """
    for each in own:
        if each.key == target.key:  # but the version in its address comes from outside
            for written, filled in ((each.url, target.url), (each.api_base, target.api_base)):
                if written and filled and "{{" in urlsplit(written).netloc:
                    rules.check_address("The target", filled)
            return
    if target.mcp:
        _check_search_tool(rules, target.mcp, "The target")
    elif target.function:
        rules.check_named("The target", target.function, "allowed_callables")
    elif target.url:
        rules.check_address("The target", target.url)
    else:
        _check_model(rules, "The target", str(target.model), target.api_base, target.api_key_env)
    for variable in (name for text in target.headers.values() for name in variables_of(text)):
        rules.check_named("The target", variable, "allowed_key_variables")


def check_store(rules: Allowed, store: str | None) -> None:
    """Refuse a store that is neither the worker's own nor listed.

    Args:
        store: The store that is named, if any.

    Raises:
        UsageError: It is another one.
    """
    own = os.environ.get(STORE_VARIABLE)  # `leadline service worker` sets it
    if store and own and _place(store) not in {_place(each) for each in (own, *rules.stores)}:
        raise _refused(f"The request names the store {store[:200]}", "allowed_stores", store)


def check_place(rules: Allowed, place: str) -> None:
    """Refuse a file in a bucket that is not below the worker's store or one that is listed.

    A bucket's address may name a server, which would be sent requests that are signed with the worker's keys.

    Raises:
        UsageError: It is elsewhere.
    """
    known = (os.environ.get(STORE_VARIABLE, ""), *rules.stores)
    if (
        "?" in place
        or ".." in place
        or not any(place.startswith(f"{one.rstrip('/')}/") for one in known if "://" in one)
    ):
        raise _refused(f"The request names {place[:200]}", "allowed_stores", place.partition("?")[0].rpartition("/")[0])


def addresses_of(host: str) -> list[str]:
    """Return the addresses of a host, whatever form its name has (``2130706433`` and ``0x7f.1`` are 127.0.0.1).

    Raises:
        UsageError: It has none.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"The host {host[:200]} has no address.", code=ErrorCode.CONFIG_OUTSIDE) from None
    return sorted({str(address[0]).partition("%")[0] for *_, address in found})


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet; IPv4 inside IPv6 counts as what it is."""
    found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or _translated(found)
        if inner is not None:
            found = inner
    return found.is_global and not found.is_multicast and not found.is_reserved


def _translated(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address in one of NAT64 (64:ff9b::/96), or in an old compatible one (::/96)."""
    if address in ipaddress.ip_network("64:ff9b::/96") or address in ipaddress.ip_network("::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _check_model(rules: Allowed, what: str, model: str, api_base: str | None, key_variable: str | None) -> None:
    if api_base:
        rules.check_address(what, api_base)
    else:
        rules.check_named(what, model, "allowed_models")
    if key_variable:
        rules.check_named(what, key_variable, "allowed_key_variables")


def _check_search_tool(rules: Allowed, tool: str, what: str = "The search tool") -> None:
    address = tool.removeprefix("mcp+")
    if urlsplit(address).scheme in ("http", "https"):
        rules.check_address(what, address)
    else:
        rules.check_named(what, tool, "allowed_callables")


def _search_tools(params: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for values in params.values():
        if isinstance(values.get(_SEARCH_TOOL), str) and values[_SEARCH_TOOL]:
            yield values[_SEARCH_TOOL]


def _check_weights(rules: Allowed, models: Models, params: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse weights to fetch or to unpickle that requests from outside may not name."""
    for name in _fetched(models, params):
        rules.check_named("The request", name, "allowed_models")
    if models.allow_pickle and not rules.pickle:
        raise _refused("The request wants pickled weights, which can run code", "allow_pickle", None)


def _fetched(models: Models, params: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of weights that a request wants to be fetched and that Leadline does not pin."""
    if not models.allow_download:
        return
    named = [models.embedder]
    for values in params.values():
        named += [value for name, value in values.items() if name.endswith(("_model", "_encoder", "_weights"))]
    for name in named:
        if isinstance(name, str) and name != OFFLINE and name.partition("@")[0] not in PINNED:
            yield name


def _same(judge: JudgeConfig, own: JudgeConfig) -> bool:
    place = ("kind", "model", "api_base", "api_key_env")
    return all(getattr(judge, name) == getattr(own, name) for name in place)


def _places_in_buckets(config: Any) -> Iterator[str]:
    """Yield the files in buckets that a form names, the store aside."""
    for name, value in config:
        for text in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
            if name != "store" and isinstance(text, str) and in_bucket(text):
                yield text


def _place(store: str) -> str:
    return store.rstrip("/") if "://" in store else str(from_home(store).absolute().resolve())


def _texts(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UsageError(
            f"{FILE}, [service] {name} is a list of texts.",
            hint=f'Write: {name} = ["…"]',
            code=ErrorCode.CONFIG_CONTENT,
        )
    variable = f"LEADLINE_{name.upper()}"
    return (*found, *_split(os.environ.get(variable, "").split(",")))


def _split(texts: Iterable[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


def _refused(what: str, field: str, name: str | None) -> UsageError:
    line = f'{field} = ["{name[:200]}"]' if name is not None else f"{field} = true"
    return UsageError(
        f"{what}, which requests from outside may not.",
        hint=f"To allow it, write in [service] of {FILE} where the worker runs: {line}",
        code=ErrorCode.CONFIG_OUTSIDE,
    )
