"""Where predictions and runs meet: predict, compare, check, verify."""
