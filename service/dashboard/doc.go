// Package dashboard is what people see of an installation in a browser: the report that `keyfold
// status` prints, figures over the last 15 minutes, and the runbook. It looks, and changes
// nothing. Each page is whole without its script, which refreshes it.
//
//	dashboard.go   requests: routes, refusals, assets
//	routes.go      the table of pages, one line each
//	watch.go       the look behind all pages, shared by all viewers
//	ring.go        figures of the last 15 minutes
//	layout.go      what stands around a page, and how it is sent
//	overview.go, workers.go, alerts.go, runbook.go   what each page shows
//	users.go, user.go, user_near.go    the page of a user, on what the commands of users print
//	failures.go     failures, as one pass has read them (failures_index.go, failures_gone.go) and a
//	                filter means them (failures_ask.go, failures_rows.go); failure.go shows one letter
//	failures_act.go what is done to them
//	results.go      what takes long to compute, once for all viewers
//	markdown.go    the runbook as HTML
//	login.go       sessions of browsers
//
// A page is a file in page/ that defines "main", and a function that returns the value it shows.
package dashboard
