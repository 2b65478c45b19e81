"""Setup → Run."""
