"""Lets `python -m crowdsift` run the command line."""

from crowdsift.cli import program

if __name__ == "__main__":
    program()
