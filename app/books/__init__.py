"""Long work as jobs: a document to an audiobook, at background priority, across restarts."""
