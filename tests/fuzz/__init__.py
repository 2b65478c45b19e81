"""Random setups, compared with plain NumPy and with stores that were damaged: `make fuzz`."""
