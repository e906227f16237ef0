// Package rediscache keeps raw vectors in Redis, where all workers share them:
// a vector.Cache.
//
// Keys are embeddings:search:<model>:<dimensions>:<hex SHA-256 of the phrase>,
// values the components as little-endian float32. What is there and does not
// fit is passed over and written anew.
//
// Redis delays no caller for long: a look-up is bounded by Config.Timeout as a whole,
// connecting included, nothing is tried twice, and after some failures in a row
// a breaker passes Redis by until one call in a while succeeds. With Redis slow
// or away the answers are the same; they cost calls of the embedder.
package rediscache
