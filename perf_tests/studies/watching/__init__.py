"""How well `netpipe.watch` tells why a training run waits, and what it costs."""
