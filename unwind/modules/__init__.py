"""The images that stacks come from, and what they define for each other."""
