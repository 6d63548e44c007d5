"""Rivals: other ways to learn from data that are spread over many owners, for honest comparison."""
