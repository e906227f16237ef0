// Package openai makes vectors with the embeddings API of OpenAI, or of any
// server that speaks it.
//
// A [Client] is a vector.Embedder and does one thing: requests, and a judgement
// of what came back. It tries nothing twice: who calls it knows what waits.
//
// How an answer is judged:
//
//	401, 403, 404, 405, 410               configuration fault, with the cure
//	400, 413, 422 about a setting          configuration fault
//	400, 413, 422 otherwise                permanent: one of the inputs
//	402, and 429 for a spent quota         engine.ErrAway
//	all else, and no answer                transient
//	200 with an answer that does not fit   transient: the server's fault
//
// A vector that has the wrong length, is zero or holds NaN or Inf never leaves
// the package, nor does the key.
package openai
