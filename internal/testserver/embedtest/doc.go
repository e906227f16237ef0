// Package embedtest serves the embeddings protocol of OpenAI on the loopback,
// for tests and trials: deterministic vectors, faults on demand, and counts of
// what was asked.
package embedtest
