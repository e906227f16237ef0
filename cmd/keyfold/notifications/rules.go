package notifications

// rulesCmd looks after the sets of rules.
type rulesCmd struct {
	Simulate simulateCmd `cmd:"" uses:"ledger,rules" help:"Decide past notifications anew by a candidate, and show what would change. Read-only."`
}
