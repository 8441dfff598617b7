"""What can be trusted in a fit: how far it depends on votes, workers, groups of votes and time."""
