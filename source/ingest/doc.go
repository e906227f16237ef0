// Package ingest is the HTTP door: POST /v1/events takes one JSON event, a JSON
// array of events, or NDJSON, and answers once they are stored, never before.
//
//	202  {"accepted":2,"duplicate":1,"message_ids":["...","...","..."]}
//	400  {"errors":[{"index":0,"reason":"missing_field","error":"..."}]}
//	405  with Allow
//	408  the body came too slowly
//	413  an event, the request or their number is too large
//	415  neither application/json nor application/x-ndjson
//	503  with Retry-After: the store failed, or too many bytes are in flight
//
// A request is stored as a whole or not at all: one bad event refuses it, with
// every fault named, so that a sender never has to find out which part of a
// batch went through. Sending it again is always safe: ids that are stored
// count as duplicates.
//
// Web pages of other sites cannot post here. The two content types cannot be
// sent across origins without a preflight, which is not answered; and a
// server on a loopback address refuses names that merely resolve to it.
package ingest
