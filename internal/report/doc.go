// Package report is what a measurement has shown: on which machine, of which versions, with
// which settings, its figures, and the verdicts on the success criteria of the specification.
// It prints as text, as JSON, and as a page with plots.
//
//	report.go    what scenarios add figures to
//	verdict.go   the success criteria
//	load.go      figures and verdicts of events that were published at a rate
//	latency.go   how long something took
//	process.go   memory and processor time of processes
//	machine.go   the machine
//	text.go, page.go, output.go   how it is printed
package report
