"""`python -m cavity` is the command line."""

from cavity.cli.app import main

if __name__ == "__main__":
    main()
