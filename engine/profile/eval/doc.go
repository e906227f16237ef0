// Package eval asks of a log of events what a profile is worth: of each product
// that a user turns to, how near the front of all products the profile that
// keyfold would have had by then puts it, beside what knows no user. It does
// no input or output.
//
// # The laws
//
// As of: a question's profile holds the events that a worker would have written
// by then, strictly older than the question. Popularity, candidates and what is
// learned of them come from before it too. (Ji et al., "A Critical Study on Data
// Leakage in Recommender System Offline Evaluation", TOIS 2023.)
//
// All candidates are ranked, none is sampled (Krichene and Rendle, "On Sampled
// Metrics for Item Recommendation", KDD 2020), and equal scores share their ranks:
// a metric is its expectation over the orders of the equal ones.
//
// Every setting answers the same questions. Which questions of the log were left
// out is counted by reason.
//
// # How it is fast
//
// A profile is a decayed sum of vectors, and its product with a candidate's
// vector is the same decayed sum of the products. So the sums are kept in the
// space of the candidates: an event adds its row of similarities to each
// setting's scores, whatever the vectors' dimensions. Each pass folds some of its
// profiles again by [profile.Config.Fold] and compares.
package eval
