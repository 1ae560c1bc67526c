"""Tables, drawings and HTML pages of results.

Start at `rendering`: `reading` loads documents, `parts` builds the content of a page from each,
`plots` draws, and the templates lay everything out.
"""
