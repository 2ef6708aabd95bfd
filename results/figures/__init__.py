"""Drawing of pictures; `lowtide.plot` is the public interface."""
