"""A real Ray cluster on loopback; `tox -e ray` runs these tests."""
