// Package postgres keeps decisions in PostgreSQL 15 or later, for any number of
// workers. A commit of many users is one call of the function notify_commit, so it
// takes one round trip and leaves no transaction open: PgBouncer's transaction mode
// works. Decisions are in one partition per day; [Ledger.Retain] makes partitions ahead and drops
// those that are past.
package postgres
