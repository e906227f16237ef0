// Package docs has the pages that programs show.
package docs

import _ "embed" // of the pages

// Runbook is RUNBOOK.md, for the person on call.
//
//go:embed RUNBOOK.md
var Runbook string
