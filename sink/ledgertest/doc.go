// Package ledgertest is the suite that every ledger of notifications passes. The
// memory ledger is the model of its random histories.
package ledgertest
