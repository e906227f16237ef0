package postgres

import "keyfold/engine/cure"

// What cures faults of the ledger.
const (
	setupCommand     cure.Name = "postgres.Setup"
	retentionCommand cure.Name = "postgres.Retention"
	rulesCommand     cure.Name = "postgres.RuleSets"
)
