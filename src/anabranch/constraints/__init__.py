"""k-Mon: joins that find constraints of their streams while they run, and keep the rows that the data needs."""
