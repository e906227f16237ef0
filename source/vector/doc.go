// Package vector turns search phrases into vectors.
//
// An [Embedder] makes raw float32 vectors; [Phrases] puts one behind the
// engine's port: it normalises phrases, asks for each distinct one once and
// keeps unit vectors in memory.
//
// [Hash] is the embedder that needs nothing but the text: it is lexical, not
// semantic. A model behind an API (package openai) is slow, costs money and can
// be away, so that more stands between it and the port:
//
//	Phrases.Resolve    the cache in memory
//	  gathering        flushes share requests, events share phrases
//	    Cache          a cache that other workers share (package rediscache)
//	    Breaker        an absent API is left alone: engine.ErrAway
//	      openai.Client
//
// Whatever the way, float32 goes in and out of every cache unchanged, and one
// place makes the unit vector of it: a hit equals a miss. Every phrase has an
// answer of its own: one that is refused, or an API that is away, takes nothing
// from a phrase whose vector a cache holds.
//
// [Retrying] is for callers without a queue behind them, such as an import.
package vector
