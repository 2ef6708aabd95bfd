"""Task trees and blocks, which several problems use."""
