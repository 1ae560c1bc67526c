"""Tables, drawings and HTML pages of results.

`*_table.py` and `*_tables.py` make the tables for the terminal. `rendering.py` reads documents and
writes a page: `parts` builds the content, `plots` and `picture` draw, and templates lay it out.
"""
