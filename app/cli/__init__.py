"""Command line of `nightingale`: one file for each command, and the parts that they share."""
