"""What to do next with a fit: which votes to ask for, and which to train on."""
