// Package schedule has what the simulations share: random numbers that follow from a
// schedule's number, the trace of what happened, and campaigns of many schedules.
package schedule
