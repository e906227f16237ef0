// Package embedding builds the way from a text to a vector as it is configured:
// the offline embedder, or the API behind its breaker, with a cache in Redis.
package embedding
