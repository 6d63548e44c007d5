"""Modules that live behind an address: a coordinator's hub, and the owners who join it."""
