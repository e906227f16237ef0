// Package explanation shows what a user's profile is made of: which events it is of, which
// of them put each of the nearest products there, and what it were without some of them.
package explanation
