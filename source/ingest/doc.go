// Package ingest is the HTTP API of events, on the server of package httpapi: POST
// /v1/events takes one JSON event, a JSON array of events, or NDJSON, and answers once
// they are stored, never before.
//
//	202  {"accepted":2,"duplicate":1,"message_ids":["...","...","..."]}
//	400  {"errors":[{"index":0,"field":"user_id","reason":"missing_field","error":"..."}]}
//	413  an event, the request or their number is too large
//	503  with Retry-After: the store failed, or too much is in flight
//
// Package httpapi has the other statuses.
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
// The reading path: an [API] serves a request (api.go), reads and completes its events
// (parse.go, profile.CompleteEvent), stores them (add.go), and says what became of each
// (partial.go).
package ingest
