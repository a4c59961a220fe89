"""A package, so that its fixtures end when the tests of another folder begin."""
