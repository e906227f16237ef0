package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"keyfold/engine"
)

// Application answers requests, behind the access control and within the limits of a
// [Server].
type Application interface {
	// About describes the API.
	About() About
	// Serve answers a request; nil: there is no such path.
	Serve(r *Request) *Answer
	// Ready returns why requests cannot be answered now, or nil. It is called once
	// a second at most, for /readyz.
	Ready(ctx context.Context) error
}

// About is what a [Handler] tells of its application.
type About struct {
	OpenAPI []byte // describes every path, status and field that is answered; nil: none is served

	Open []string // paths that need no bearer token: what a request itself holds authorizes it there

	// InWords gives a refusal, of this package's own too, the form that the application
	// answers with; nil: it stays as it is.
	InWords func(*http.Request, *Answer) *Answer

	Under string // what the application's paths begin with, where it is joined to others: "/ui"; "": nothing

	Missing string // is answered for a path that there is not; "": that there is no such path

	// The texts of an outage.
	Cannot string // is said where the application is not ready
	Failed string // is logged where a request met the outage
	Then   string // what happens by itself
	Again  string // is logged at the end
}

// Request is a request to an [Application].
type Request struct {
	*http.Request
	handler *Handler
	writer  http.ResponseWriter
	visitor visitor
	share   reservation
	slot    bool

	body  []byte
	lines bool // the body is NDJSON
}

// Read returns the whole body. It is part of the request's memory.
func (r *Request) Read() ([]byte, *Answer) { return r.readUpTo(MaxRequestBytes) }

func (r *Request) readUpTo(limit int64) ([]byte, *Answer) {
	body, refused := readBody(r.writer, r.Request, &r.share, limit)
	if refused != nil {
		return nil, refused
	}
	// A slot is taken only now, so that a body that never ends does not occupy one.
	if !r.enter() {
		return nil, busy()
	}
	r.body = body
	return body, nil
}

// enter takes the request's slot, or reports that there is none.
func (r *Request) enter() bool {
	r.slot = r.slot || r.handler.slots.take(r.visitor.key, 1)
	return r.slot
}

// leave gives back what the request holds.
func (r *Request) leave() {
	r.share.release()
	if r.slot {
		r.handler.slots.give(r.visitor.key, 1)
	}
}

// Each reads the body and calls do with the text of every item, in order: one JSON
// object, an array of them, or NDJSON. A fault between the items is the last text's
// error. Texts are part of the request's memory.
func (r *Request) Each(do func(index int, text []byte, err error)) (refused *Answer) {
	if r.lines, refused = isNDJSON(r.Request); refused != nil {
		return refused
	}
	body, refused := r.Read()
	if refused != nil {
		return refused
	}
	if len(trim(body)) == 0 {
		return refuse(http.StatusBadRequest, "empty_body", "the body is empty: send an event, an array of events or NDJSON")
	}
	split := splitJSON
	if r.lines {
		split = splitLines
	}
	index := 0
	for text, err := range split(body) {
		if err != nil {
			do(index, text, engine.PermanentError(engine.ReasonMalformedJSON, err))
			break
		}
		if index == MaxItems {
			return refuse(http.StatusRequestEntityTooLarge, "too_many_events",
				fmt.Sprintf("the request has more than %d events: send several smaller ones", MaxItems))
		}
		do(index, text, nil)
		index++
	}
	return nil
}

// Separable reports whether the items that Each has read are told apart for certain
// also where some are at fault: one cannot tell where an element of an array ends that
// is no JSON as a whole.
func (r *Request) Separable() bool { return r.lines || json.Valid(r.body) }

// Partial reads ?partial: whether the good items of a request go on where others are at
// fault. A misspelt value would quietly change that.
func (r *Request) Partial() (bool, *Answer) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	given := query["partial"]
	if err == nil && len(given) == 0 {
		return false, nil
	}
	if err == nil && len(given) == 1 {
		if partial, err := strconv.ParseBool(given[0]); err == nil {
			return partial, nil
		}
	}
	return false, refuse(http.StatusBadRequest, "bad_parameter",
		fmt.Sprintf("the query is %s: send ?partial=true, ?partial=false or none", short(r.URL.RawQuery)))
}

// JSON refuses a content type that a web page of another site may send.
func (r *Request) JSON() *Answer { return r.Typed(typeJSON, typeNDJSON) }

// Typed refuses a content type that is none of these, another encoding than UTF-8, and a
// body that is compressed.
func (r *Request) Typed(types ...string) *Answer {
	_, refused := typeOf(r.Request, types)
	return refused
}

// The content types of events.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
)

// isNDJSON reads the content type. Others are refused, above all those a web
// page may send to any site without asking.
func isNDJSON(r *http.Request) (bool, *Answer) {
	media, refused := typeOf(r, []string{typeJSON, typeNDJSON})
	return media == typeNDJSON, refused
}

// typeOf returns the content type, which is one of these.
func typeOf(r *http.Request, types []string) (string, *Answer) {
	contentType := r.Header.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(contentType)
	charset, given := parameters["charset"]
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case err != nil || !slices.Contains(types, media):
		return "", refuse(http.StatusUnsupportedMediaType, "content_type",
			fmt.Sprintf("Content-Type is %s: send %s", short(contentType), strings.Join(types, " or ")))
	case given && !strings.EqualFold(charset, "utf-8"):
		return "", refuse(http.StatusUnsupportedMediaType, "charset",
			fmt.Sprintf("charset is %s: send utf-8", short(charset)))
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return "", refuse(http.StatusUnsupportedMediaType, "content_encoding",
			fmt.Sprintf("Content-Encoding is %s: send the body uncompressed", short(encoding)))
	}
	return media, nil
}
