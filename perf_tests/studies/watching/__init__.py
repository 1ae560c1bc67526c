"""How well `netpipe.watch` recognises why a training run waits."""
