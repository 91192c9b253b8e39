"""What is known about the data while it flows: profile windows, matrix views, processing times."""
