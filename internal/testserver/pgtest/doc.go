// Package pgtest runs private PostgreSQL servers for tests: the installed programs
// with a folder and a port of their own, so that nothing is shared with a system
// server or another test binary. A server writes each commit to the operating system
// before it answers, so that one killed with [Server.Kill] has every commit that it
// had answered. Unless a test asks for `fsync=on`, a commit does not wait for the disk.
//
// [Shared] gives one server per test binary, which [process.Main] stops, and
// [Server.Database] a fresh database per test; [Start] gives a server of one's own to
// tests that kill it.
package pgtest
