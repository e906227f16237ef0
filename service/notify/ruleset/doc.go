// Package ruleset reads the set of rules that notifications are decided by: the file
// of rules, and the local hours of users who have none of their own.
package ruleset
