"""The monitor of a training run."""
