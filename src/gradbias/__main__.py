"""`python -m gradbias`, the same as the `gradbias` command."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
