// Package httpapi is the HTTP server that an [Application] stands on: the events of
// package ingest, or notifications. It lets requests in, bounds them, reads their bodies,
// and answers in JSON:
//
//	401  with WWW-Authenticate: no bearer token, or an unknown one
//	403  the token lacks a scope, or a server on loopback without tokens was
//	     asked under a foreign name
//	405  with Allow
//	408  the body came too slowly
//	413  the request or the number of its items is too large
//	415  neither application/json nor application/x-ndjson
//	429  with Retry-After: over the rate of one sender or of all
//	503  with Retry-After: a server that is needed failed, too much is in flight,
//	     or the token file cannot be read
//
// GET /livez and /readyz are for probes, and GET /openapi.json describes the
// application; these three need no token.
//
// Web pages of other sites cannot post here. The two content types cannot be
// sent across origins without a preflight, which is not answered; and a server
// without tokens on a loopback address refuses names that merely resolve to it.
//
// The reading path: a [Server] lets a request in (guard.go) for its [Handler]
// (handler.go), which lets the application answer it, counts and logs (log.go). The
// application reads the body by [Request.Each] (application.go, body.go, split.go).
package httpapi
