"""Links in which no fold hides a function: begin with `linkpass.distinct.doubts`."""
