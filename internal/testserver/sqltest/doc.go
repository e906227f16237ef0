// Package sqltest runs private MariaDB servers for tests: the installed
// mariadbd with a folder, a socket and a port of its own, so that nothing is
// shared with a system server or another test binary. It writes each commit to the
// operating system before it answers, so that one killed with [Server.Kill] has to
// bring back every commit it had answered. A commit does not wait for the disk.
//
// Starting takes a second or two. [Shared] gives one server per test binary,
// which [process.Main] stops, and [Server.Database] a fresh database per test; [Start]
// gives a server of one's own to tests that kill it.
package sqltest
