"""From a reader through the resolver to a writer, some thousands at a time; how far it has come."""
