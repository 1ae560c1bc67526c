"""Bugs of other packages that netpipe finds, in the releases that had them."""
