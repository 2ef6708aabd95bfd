"""Records as frames, and the tables made of them."""
