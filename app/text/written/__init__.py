"""Written forms of German, Spanish, French, Italian and Brazilian Portuguese, and how they are read."""
