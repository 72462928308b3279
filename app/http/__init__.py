"""Routers: translate, call a use case, answer."""
