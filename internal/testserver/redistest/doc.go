// Package redistest runs private Redis servers for tests: the installed
// redis-server with a folder and ports of its own, killed at the test's end at
// the latest. A server can be killed, restarted, frozen and thawed, and take TLS
// with certificates of a private [Authority]; several make a cluster, and one can
// have a replica and be watched by a sentinel.
package redistest
