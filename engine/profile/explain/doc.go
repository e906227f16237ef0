// Package explain tells what a stored profile is made of. It does no I/O.
//
// A profile is a sum: with the coefficients c of [profile.Config.Trace], m the mass, u the
// vector and x the events' unit vectors, m u = c1 x1 + c2 x2 + ... So an event's share of
// the vector is c (x . u) / m, and all shares add up to 1; its share of a product's score
// is c (x . y) / m, and these add up to the cosine of u and the product's unit vector y.
// Nothing is sampled or approximated.
//
// What is not known (events that were deleted, and vectors that cannot be had) is the
// remainder: m u less the sum of what is known.
package explain
