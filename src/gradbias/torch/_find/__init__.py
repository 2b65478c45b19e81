"""Which symmetries a model has."""
