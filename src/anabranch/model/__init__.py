"""What filters and plans are made of."""
