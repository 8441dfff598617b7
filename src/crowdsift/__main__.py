"""Lets `python -m crowdsift` run the command line."""

from crowdsift.cli import main

if __name__ == "__main__":
    main()
