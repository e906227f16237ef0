//go:build !unix

package main

// lockFolder does nothing where there is no flock: running two keyfold-lite on
// one folder is up to the user there.
func lockFolder(string) (unlock func(), err error) { return func() {}, nil }
