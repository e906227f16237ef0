// Package memory keeps decisions in maps: the ledger of tests and of runs that
// leave nothing behind. It is the model that the other ledgers are compared with.
package memory
