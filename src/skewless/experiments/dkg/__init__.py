"""Dalabasmaz & Can: Dynamic Key Grouping."""
