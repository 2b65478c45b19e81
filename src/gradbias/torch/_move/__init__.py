"""Moves along symmetries that keep the function."""
