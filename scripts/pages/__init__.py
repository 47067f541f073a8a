"""Pages of the documentation that are made from the code; scripts/generate_docs.py writes them."""
