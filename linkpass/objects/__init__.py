"""The objects of the link, all at once, as columns; `linkpass.objects.functions.LinkObjects` is the way in."""
