// Package notifications has the commands that decide notifications and look after
// the decisions.
package notifications

import (
	"keyfold/cmd/decisions"
	"keyfold/cmd/keyfold/app"
)

// Cmd decides notifications.
type Cmd struct {
	Setup      setupCmd                 `cmd:"" uses:"broker,queue,retries,ledger,ledger-owner" help:"Create queues and tables; idempotent."`
	Work       workCmd                  `cmd:"" uses:"broker,queue,admin,worker,retries,hold,ledger,rules,links,taste,store,profiles,embedding" help:"Run the worker: consume, decide, store, dispatch, acknowledge."`
	Serve      serveCmd                 `cmd:"" uses:"broker,admin,ledger,rules,repeats,links" help:"Run the HTTP API: publish notifications, answer with decisions."`
	Send       sendCmd                  `cmd:"" uses:"broker" help:"Publish the notifications of a file."`
	Cancel     cancelCmd                `cmd:"" uses:"ledger,rules" help:"End notifications that wait, and their follow-ups."`
	Rules      rulesCmd                 `cmd:"" help:"Check, publish, compare and roll back sets of rules."`
	User       decisions.User[*app.App] `cmd:"" uses:"ledger" help:"Show and verify a user, set and import preferences, merge and erase users."`
	Decision   decisionCmd              `cmd:"" uses:"ledger" help:"Show why a notification was decided so."`
	Event      eventCmd                 `cmd:"" uses:"ledger" help:"Show all decisions of a notification."`
	Deferrals  deferralsCmd             `cmd:"" uses:"ledger" help:"Count, list and release notifications that wait for their time."`
	Redispatch redispatchCmd            `cmd:"" uses:"broker,ledger,links" help:"Dispatch again what was decided NOW and not confirmed."`
	Score      scoreCmd                 `cmd:"" uses:"ledger" help:"Show the cosines of texts and profiles, to set the score's bounds."`
	Retention  retentionCmd             `cmd:"" uses:"ledger,ledger-owner,retention" help:"Make the days to come, drop those that are past."`
	Failed     failedCmd                `cmd:"" uses:"broker" help:"List, retry and remove what failed: dead letters."`
	Dlq        dlqCmd                   `cmd:"" uses:"broker" hidden:"" help:"The former name of failed."`
}
