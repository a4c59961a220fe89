"""Written forms of Spanish, French, Italian and Brazilian Portuguese, and how they are read."""
