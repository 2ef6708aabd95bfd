"""Where `verify` was in 0.1: `lowtide.verify`, or `lowtide.models.verifier.verify.verify`."""

from .verifier.verify import verify as verify
