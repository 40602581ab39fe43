"""The tables of an image: made from the collected records, and checked against machine code and data."""
