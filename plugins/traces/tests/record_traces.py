"""A small agent of a framework, led through one conversation by a scripted model, and recorded by an instrumentation.

``make test-bridges`` runs it, and it makes the samples in instrumentors/ again, in an environment that has the two (the
README there names them): ``python plugins/traces/tests/record_traces.py OUT langchain openinference``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToJson
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

SYSTEM = "You help skippers."
ASKED = ("How high is the tide at Lisbon and at Porto?", "yes", "yes")
TIDES = {"Lisbon": "5.4 m", "Porto": "3.9 m"}
REFUSED = "No berth is longer than 50 m."
MANUAL = ("Moor ships of more than 50 m at the roads.", "The roads are east of the mole.")
REPLIES: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("Let me look.", [("get_tide", {"harbour": "Lisbon"}), ("get_tide", {"harbour": "Porto"})]),
    ("5.4 m at Lisbon, 3.9 m at Porto. Shall I book a berth at Lisbon?", []),
    ("", [("book_berth", {"harbour": "Lisbon", "length_m": 120})]),
    ("No berth is that long. Shall I look into the manual?", []),
    ("", [("search_manual", {"query": "ships of more than 50 m"})]),
    ("Ships of more than 50 m moor at the roads, east of the mole.", []),
]
"""What the model says to one request after the other: a text, and calls of tools."""


class Model(BaseHTTPRequestHandler):
    """A model behind OpenAI's two interfaces."""

    asked = 0

    def do_POST(self) -> None:
        """Say the next reply."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said, calls = REPLIES[Model.asked % len(REPLIES)]
        Model.asked += 1
        numbered = [(f"call_{Model.asked}_{n}", name, json.dumps(given)) for n, (name, given) in enumerate(calls)]
        reply = (_response if self.path.endswith("/responses") else _completion)(Model.asked, said, numbered)
        repeated = {name: body[name] for name in ("model", "instructions", "tools") if name in body}
        data = json.dumps({**reply, **repeated}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing on the terminal."""


def _completion(number: int, said: str, calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    made = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": given}} for id_, name, given in calls
    ]
    message = {"role": "assistant", "content": said or None} | ({"tool_calls": made} if made else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop"}
    usage = {"prompt_tokens": 100 * number, "completion_tokens": 10 * number, "total_tokens": 110 * number}
    return {"id": f"c{number}", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage}


def _response(number: int, said: str, calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    text = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
    output: list[dict[str, Any]] = [
        {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed", "content": [text]}
    ] * bool(said)
    for id_, name, given in calls:
        own = {"id": f"f{id_}", "call_id": id_, "name": name, "arguments": given}
        output.append({"type": "function_call", "status": "completed", **own})
    usage = {"input_tokens": 100 * number, "output_tokens": 10 * number, "total_tokens": 110 * number}
    usage |= {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    told = {"id": f"r{number}", "object": "response", "created_at": 1, "status": "completed", "output": output}
    return {**told, "usage": usage, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}


def get_tide(harbour: str) -> str:
    """Say how high the tide is."""
    return TIDES[harbour]


def langchain(_: str) -> Callable[[str], str]:
    """Return an agent of LangChain, whose manual is a retriever."""
    from langchain.agents import create_agent
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import StructuredTool, ToolException
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    class Manual(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(text, metadata={"source": "manual.pdf"}) for text in MANUAL]

    def book_berth(harbour: str, length_m: int) -> str:
        """Book a berth."""
        raise ToolException(REFUSED)

    def search_manual(query: str) -> str:
        """Look into the manual."""
        return "\n".join(found.page_content for found in Manual().invoke(query))

    functions = (get_tide, book_berth, search_manual)
    tools = [StructuredTool.from_function(each, handle_tool_error=True) for each in functions]
    agent = create_agent(ChatOpenAI(model="scripted"), tools, system_prompt=SYSTEM, checkpointer=InMemorySaver())

    def ask(text: str) -> str:
        said = {"messages": [{"role": "user", "content": text}]}
        return str(agent.invoke(said, {"configurable": {"thread_id": "lisbon"}})["messages"][-1].content)

    return ask


def agents(interface: str) -> Callable[[str], str]:
    """Return an agent of OpenAI's SDK."""
    from agents import Agent, Runner, function_tool, set_default_openai_api

    set_default_openai_api(interface)

    @function_tool(failure_error_function=lambda _, error: str(error))
    def book_berth(harbour: str, length_m: int) -> str:
        """Book a berth."""
        raise ValueError(REFUSED)

    @function_tool
    def search_manual(query: str) -> str:
        """Look into the manual."""
        return "\n".join(MANUAL)

    tools = [function_tool(get_tide), book_berth, search_manual]
    agent = Agent("Harbour", instructions=SYSTEM, model="scripted", tools=tools)
    said: list[Any] = []

    def ask(text: str) -> str:
        result = Runner.run_sync(agent, [*said, {"role": "user", "content": text}])
        said[:] = result.to_input_list()
        return str(result.final_output)

    return ask


def pydantic_ai(interface: str) -> Callable[[str], str]:
    """Return an agent of pydantic-ai."""
    from pydantic_ai import Agent, ModelRetry

    model = {"chat_completions": "openai-chat", "responses": "openai-responses"}[interface]
    agent = Agent(f"{model}:scripted", instructions=SYSTEM, name="harbour", tools=[get_tide])

    @agent.tool_plain
    def book_berth(harbour: str, length_m: int) -> str:
        """Book a berth."""
        raise ModelRetry(REFUSED)

    @agent.tool_plain
    def search_manual(query: str) -> str:
        """Look into the manual."""
        return "\n".join(MANUAL)

    said: list[Any] = []

    def ask(text: str) -> str:
        result = agent.run_sync(text, message_history=said)
        said[:] = result.all_messages()
        return str(result.output)

    return ask


FRAMEWORKS = {"langchain": langchain, "agents": agents, "pydantic_ai": pydantic_ai}
INSTRUMENTORS = {
    ("langchain", "openinference"): "openinference.instrumentation.langchain.LangChainInstrumentor",
    ("langchain", "openllmetry"): "opentelemetry.instrumentation.langchain.LangchainInstrumentor",
    ("agents", "openinference"): "openinference.instrumentation.openai_agents.OpenAIAgentsInstrumentor",
    ("agents", "openllmetry"): "opentelemetry.instrumentation.openai_agents.OpenAIAgentsInstrumentor",
}


def instrument(framework: str, name: str, provider: TracerProvider) -> None:
    """Switch an instrumentation on, of pydantic-ai also one of its formats, such as ``v5``."""
    if framework == "agents":
        from agents import set_trace_processors

        set_trace_processors([])  # it would send its traces home
    if name == "logfire":
        import logfire

        logfire.configure(send_to_logfire=False, console=False, metrics=False, service_version="1")
        getattr(logfire, {"agents": "instrument_openai_agents"}.get(framework, "instrument_pydantic_ai"))()
    elif framework == "pydantic_ai":
        from pydantic_ai import Agent
        from pydantic_ai.models.instrumented import InstrumentationSettings

        if name == "openinference":
            from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

            provider.add_span_processor(OpenInferenceSpanProcessor())
        version: Any = int(name[1:]) if name[1:].isdecimal() else 2
        Agent.instrument_all(InstrumentationSettings(tracer_provider=provider, version=version))
    else:
        module, _, own = INSTRUMENTORS[framework, name].rpartition(".")
        getattr(import_module(module), own)().instrument(tracer_provider=provider)


def as_json(data: Any) -> str:
    """Return a message of OTLP as its JSON has it: with ids in hex."""
    ids = re.compile(r'("(?:traceId|spanId|parentSpanId)": ?)"([^"]+)"')
    return ids.sub(lambda found: f'{found[1]}"{b64decode(found[2]).hex()}"', MessageToJson(data, indent=None))


def main(out: str, framework: str, instrumentation: str, interface: str = "chat_completions") -> None:
    """Record a conversation as OUT.json and OUT.pb."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "none"}
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "harbour"}))
    instrument(framework, instrumentation, provider)
    if instrumentation == "logfire":
        import logfire

        provider = logfire.DEFAULT_LOGFIRE_INSTANCE.config.get_tracer_provider()
    else:
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    ask = FRAMEWORKS[framework](interface)
    for text in ASKED:
        # LangGraph names the thread itself; else the application says which conversation a trace is of.
        tracer = trace.NoOpTracer() if framework == "langchain" else trace.get_tracer("application")
        with tracer.start_as_current_span("turn", attributes={"session.id": "lisbon"}):
            print(ask(text))
    found = encode_spans(kept.get_finished_spans())
    for group in (group for resource in found.resource_spans for group in resource.scope_spans):
        for event in (event for span in group.spans for event in span.events):
            for attribute in event.attributes:
                if attribute.key == "exception.stacktrace":  # names folders of this machine
                    attribute.value.string_value = ""
    Path(f"{out}.pb").write_bytes(found.SerializeToString())
    Path(f"{out}.json").write_text(as_json(found))
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
