// Package conformance compares keyfold's client of the stream protocol with RabbitMQ's own
// library for Go: each reads what the other writes. The library is a dependency of this
// module's alone.
package conformance
