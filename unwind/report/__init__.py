"""The report: what is merged in an image, and what that means for a profile, as data and as a page."""
