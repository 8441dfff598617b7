"""Studies: a web application that asks judges for votes, and stops when the answer is settled."""
