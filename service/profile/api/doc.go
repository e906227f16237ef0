// Package api is the HTTP API that reads: profiles, and products for a user, for a product
// or for a vector. GET /openapi.json describes it.
package api
