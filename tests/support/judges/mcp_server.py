"""A small MCP server with a search tool, started by tests as a process.

``python -m tests.support.judges.mcp_server HOW``: HOW is ``stdio``, or a port on which it speaks streamable HTTP.
The first line that a query holds decides what it does.
"""

from __future__ import annotations

import os
import sys
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")


@server.tool()
def search(query: str, limit: int = 5) -> list[dict[str, str]]:
    """Find documents about a query."""
    if query == "die":
        os._exit(3)
    if query == "hang":
        time.sleep(60)
    if query == "large":
        return [{"title": "x" * 2_000_000}]
    if query == "fail":
        raise ValueError("the index is broken")
    if query == "environment":
        return [{"title": name, "content": os.environ[name]} for name in sorted(os.environ) if "KEY" in name]
    return [{"title": f"About {query}", "url": "https://a", "content": "She did it."}][:limit]


@server.tool()
def shout(words: str) -> str:
    """Say it louder."""
    return words.upper()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
