"""The objects of the link, all at once, as columns; begin with `linkpass.objects.functions.LinkObjects`."""
