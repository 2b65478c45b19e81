"""A grid of setups → one Dataset."""
