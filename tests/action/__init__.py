"""The GitHub Action of this repository, run as its steps run it."""
