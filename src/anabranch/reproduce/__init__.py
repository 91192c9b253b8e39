"""Re-creations of the papers' figures; loaded by the command line."""
