//go:build !linux

package main

// memory returns a folder in memory for the files of tests: there is none that all machines have.
func memory() string { return "" }
