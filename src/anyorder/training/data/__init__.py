"""Training data: sources are read as token documents, documents are packed into rows, rows are numbered."""
