package notifications

import (
	"keyfold/cmd/decisions"
	"keyfold/cmd/keyfold/app"
)

// rulesCmd looks after the sets of rules.
type rulesCmd struct {
	Lint     decisions.Lint[*app.App] `cmd:"" help:"Name every fault of a set of rules. Read-only."`
	Test     decisions.Test[*app.App] `cmd:"" help:"Run the test cases that a set of rules brings along. Read-only."`
	Shadow   rulesShadowCmd           `cmd:"" uses:"ledger" help:"Have workers decide a second time by a candidate, without effect, and show what it comes to."`
	Simulate simulateCmd              `cmd:"" uses:"ledger,rules" help:"Decide past notifications anew by a candidate, and show what would change. Read-only."`
	Publish  rulesPublishCmd          `cmd:"" uses:"ledger" help:"Put a set of rules into force in all workers."`
	Rollback rulesRollbackCmd         `cmd:"" uses:"ledger" help:"Put the document of an earlier set into force again."`
	List     rulesListCmd             `cmd:"" uses:"ledger" help:"List the sets that were published. Read-only."`
	Show     rulesShowCmd             `cmd:"" uses:"ledger" help:"Print the document of a set. Read-only."`
	Diff     rulesDiffCmd             `cmd:"" uses:"ledger" help:"Show what differs between two sets. Read-only."`
}
