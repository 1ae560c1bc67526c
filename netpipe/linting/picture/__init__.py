"""A pipeline as a picture, with its findings marked at the calls that they are about.

`visible_graph` selects the nodes to show and puts them in reading order, and `calls` describes each
as the user wrote it; `terminal` and `drawing` render that as text and as SVG.
"""
