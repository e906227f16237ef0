// Package answers has the API of recommendations answer what a log asks, over HTTP, and
// compares what it finds with popularity, the last product and item kNN.
//
// The questions are those of engine/profile/eval. They are put in the order of time. Before each,
// the log is replayed up to it: the history has what is strictly older than the question, and the
// user's profile holds the events that are older by an age, which were parsed, folded and stored
// as a worker does it. Then service/profile/api is asked on a loopback address as a shop asks it.
//
// The catalogue of the API has the candidates of the evaluation and no other product, so that all
// that is compared ranks the same products. Popularity is counted anew for each request that needs
// it; a running program uses a count for a minute.
//
// Where a request is for what an evaluation computes, too, each answer is compared with it.
package answers
