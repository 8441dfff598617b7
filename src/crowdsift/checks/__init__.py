"""How far a fit can be trusted: its dependence on votes, workers, groups of votes and time."""
