"""One pytest run of performance tests: its options, its sessions, its results."""
