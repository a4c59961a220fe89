"""One file per protocol surface; `wire` holds their types, `respond` how errors are rendered."""
