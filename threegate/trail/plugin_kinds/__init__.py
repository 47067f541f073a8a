"""The kinds of events of what is to become plugins: each file goes with its room, as `kinds.py` of its plugin."""
