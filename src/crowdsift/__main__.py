"""Run the command line by `python -m crowdsift`."""

from crowdsift.cli import program

if __name__ == "__main__":
    program()
