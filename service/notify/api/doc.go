// Package api is the HTTP API of notifications, an [httpapi.Application] for both
// programs. keyfold-lite decides in the process and answers with the decisions;
// keyfold publishes to the broker and answers once the broker has confirmed.
//
//	POST /v1/notifications              post.go, decide.go, publish.go, lookup.go, wait.go
//	GET  /v1/notifications/{event_id}   read.go
//	GET  /v1/decisions/{decision_id}    read.go
//	POST /v1/decisions/preview          preview.go
//	GET  /v1/users/{id}/decisions       read.go
//	GET, PUT, PATCH /v1/users/{id}/preferences preferences.go
//	POST /v1/deliveries                 deliveries.go
//	GET  /openapi.json                  openapi.json
package api
