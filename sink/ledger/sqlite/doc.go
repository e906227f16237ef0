// Package sqlite keeps decisions in one SQLite file: the embedded ledger, with
// nothing to install. Package sqlfile opens the file and has its one writer, on
// which each commit is one function: it reads the versions of its users and the keys
// of its events, answers each change, and writes those that may be written.
package sqlite
