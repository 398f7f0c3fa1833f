"""The checker's rules, one module per subsection of the list, each rule with its id and one sentence."""
