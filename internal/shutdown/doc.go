// Package shutdown ends a program in time. The first signal asks it to stop, one that
// comes a second later or more ends it at once, and whatever has not stopped within its
// limit is shown and left behind.
package shutdown
