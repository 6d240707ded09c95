"""The command line: parse, build the configuration, call the library, print."""
