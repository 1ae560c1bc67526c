"""One HTML page that needs nothing else, out of netpipe's JSON documents.

`reading` takes the documents, `parts` says what of each is shown, `plots` draws, `rendering` puts
it all into the templates.
"""
