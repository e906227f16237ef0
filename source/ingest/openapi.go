package ingest

import (
	_ "embed" // the description
	"encoding/json"
	"net/http"
)

// openAPI describes every path, status and field that is answered.
//
//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(*http.Request) *reply {
	return &reply{status: http.StatusOK, body: json.RawMessage(openAPI)}
}
