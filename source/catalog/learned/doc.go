// Package learned learns vectors of products from what sessions have in common, and
// joins them to the vectors of their texts.
//
// Two products are near if they are in one session more often than chance has it: the
// vectors are the leading eigenvectors of the positive pointwise mutual information.
// The same sessions in the same order give the same bytes, on processors of one kind.
package learned
