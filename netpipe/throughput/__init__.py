"""How fast a loader goes when nothing waits for it: sessions in turns, and figures over them."""
