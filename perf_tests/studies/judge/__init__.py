"""How often `netpipe judge` refuses a change that looks faster and is wrong, and accepts others."""
