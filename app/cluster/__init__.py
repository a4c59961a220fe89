"""Several replicas of the server behind one address, under Ray Serve."""
