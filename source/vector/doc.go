// Package vector turns search phrases into vectors.
//
// An [Embedder] makes raw float32 vectors; [Phrases] puts one behind the
// engine's port: it normalises phrases, asks for each distinct one once and
// keeps unit vectors in memory. A slower embedder is made faster by wrapping
// it in another Embedder (a shared cache in front of a remote model, say):
// float32 goes in and out of such a cache unchanged, so that a hit equals a
// miss.
//
// [Hash] is the embedder that needs nothing but the text: it is lexical, not
// semantic.
package vector
