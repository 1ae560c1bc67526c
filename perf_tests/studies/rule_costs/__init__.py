"""What breaking each rule of `netpipe lint` costs, measured on the examples of docs/rules.md."""
