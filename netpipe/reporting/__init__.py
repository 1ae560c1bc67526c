"""Tables, drawings and HTML pages of results.

The tables of the terminal are in `*_table.py` and `*_tables.py`. `rendering.py` reads documents and
writes a page: `parts` builds its content, `plots` and `picture` draw, and the templates lay it out.
"""
