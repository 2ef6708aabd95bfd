"""Writers of certificates: each proves a given bound once more and writes the proof down."""
