"""The tables of an image: made from what was collected, and checked against machine code and data."""
