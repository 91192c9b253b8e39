"""What filters learn and keep: candidate attributes for routes, self-tuning, and files that outlive a program."""
