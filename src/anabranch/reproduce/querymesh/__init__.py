"""Nehme, Works, Lei, Rundensteiner and Bertino: the experiments with Query Mesh."""
