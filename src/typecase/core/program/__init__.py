"""Programs: the language that says what goes from a document, and its executor."""
