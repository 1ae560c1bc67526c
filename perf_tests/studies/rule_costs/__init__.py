"""The costs of breaking each rule of `netpipe lint`, measured on the examples of docs/rules.md."""
