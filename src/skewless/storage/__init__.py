"""What lies in shared directories: the ledger and the state store, over one batch directory. No Spark here."""
