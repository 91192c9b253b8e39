"""All queries together: what each reads and does, what a small change would save, and whether the mix has changed."""
