"""``python -m plackett``: the same as the command ``plackett``."""

from plackett.cli import main

if __name__ == "__main__":
    main()
