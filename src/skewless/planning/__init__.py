"""Planning: which worker gets which load, once the loads are known. No streams and no states here."""
