"""Models in the forms of other programs, converted to the official layouts."""
