// Package similar says how near things are to the candidates of an evaluation: by
// their vectors, by vectors learned from what sessions have in common, or by item
// kNN, which has no vectors. All of them are a Space of engine/profile/eval.
package similar
