"""An MCP server (Model Context Protocol) over a store, for reading only: see ``docs/mcp.md``.

:mod:`.store_tools` has the tools, :mod:`.bounded_reply` keeps what they say short and marks it as data, and
:mod:`.mcp_app` gives them to clients, over standard input and output or over HTTP with a token.
"""
