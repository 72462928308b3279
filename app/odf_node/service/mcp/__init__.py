"""MCP: a read-only door for programs with language models. Source: Model Context Protocol."""
