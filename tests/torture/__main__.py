"""`python -m torture`, with tests/ on the path; `make torture` does."""

from torture.run import main

if __name__ == "__main__":
    main()
