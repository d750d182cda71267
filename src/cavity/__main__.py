"""`python -m cavity` is the command line."""

from cavity.interfaces.cli import main

if __name__ == "__main__":
    main()
