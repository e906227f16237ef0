// Package ingest is the HTTP API: POST /v1/events takes one JSON event, a JSON
// array of events, or NDJSON, and answers once they are stored, never before.
//
//	202  {"accepted":2,"duplicate":1,"message_ids":["...","...","..."]}
//	400  {"errors":[{"index":0,"field":"user_id","reason":"missing_field","error":"..."}]}
//	401  with WWW-Authenticate: no bearer token, or an unknown one
//	403  a server on loopback without tokens was asked under a foreign name
//	405  with Allow
//	408  the body came too slowly
//	413  an event, the request or their number is too large
//	415  neither application/json nor application/x-ndjson
//	429  with Retry-After: over the rate of one sender or of all
//	503  with Retry-After: the store failed, too much is in flight, or the token
//	     file cannot be read
//
// GET /livez and /readyz are for probes, and GET /openapi.json describes all of
// it; these three need no token.
//
// A request is stored as a whole or not at all: one bad event refuses it, with
// every fault named, so that a sender never has to find out which part of a
// batch went through. With ?partial=true the good events are stored and the
// answer says of each what became of it. Sending a request again is always
// safe: ids that are stored count as duplicates.
//
// What is stored is what is published later: the event's text as it came, with
// message_id and version filled in where it had none.
//
// Web pages of other sites cannot post here. The two content types cannot be
// sent across origins without a preflight, which is not answered; and a server
// without tokens on a loopback address refuses names that merely resolve to it.
//
// The reading path: a [Server] lets a request in (guard.go), a [Handler] reads
// its body (body.go), reads and completes its events (split.go, parse.go,
// engine.CompleteEvent), stores them (add.go) and answers, counts and logs
// (answer.go).
//
// Another application's paths stand behind the same access control and limits:
// see [NewApplication].
package ingest
