"""How pictures are drawn; `lowtide.plot` is their public face."""
