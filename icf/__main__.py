"""`python -m icf` is the command `icf`."""

from icf.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
