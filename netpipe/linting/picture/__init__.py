"""A pipeline as a picture, with its findings marked at the calls that they are about.

`visible_graph` selects the nodes to show, `calls` describes each as the user wrote it, and
`outline` puts them in reading order; `terminal` and `drawing` render that as text and as SVG.
"""
