"""``python -m threegate``: the same as the console script."""

from threegate.cli import main

if __name__ == "__main__":
    main()
