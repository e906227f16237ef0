// Package shutdown ends a program in time. The first signal asks it to stop, a
// second one ends it at once, and whatever has not stopped within its limit is
// shown and left behind.
package shutdown
