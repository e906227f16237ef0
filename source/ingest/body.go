package ingest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// firstRead is what a request holds before its first byte has come.
const firstRead = 16 << 10

// readBody reads the whole body. Memory grows with what has come, not with
// what was announced, and all of it counts against MaxInFlightBytes until
// release, which is never nil.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), f *fault) {
	var held int64
	release = func() { h.inFlight.Add(-held) }
	if r.ContentLength > MaxRequestBytes {
		return nil, release, requestTooLarge()
	}
	size := int64(firstRead)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength+1) // one more, so that EOF needs no growth
	}
	limited := http.MaxBytesReader(w, r.Body, MaxRequestBytes)
	for {
		h.inFlight.Add(size - held)
		held = size
		if h.inFlight.Load() > MaxInFlightBytes {
			return nil, release, unavailable("busy", "too many requests are in flight; send it again")
		}
		grown := make([]byte, len(body), size)
		copy(grown, body)
		var err error
		if body, err = fill(limited, grown); errors.Is(err, io.EOF) {
			return body, release, nil
		}
		if err != nil {
			return nil, release, unreadable(err)
		}
		size = min(4*size, MaxRequestBytes+1)
	}
}

// fill reads until b has no room left or an error, io.EOF at the end.
func fill(r io.Reader, b []byte) ([]byte, error) {
	for len(b) < cap(b) {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

func unreadable(err error) *fault {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return requestTooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		f := faultOf(http.StatusRequestTimeout, "timeout", "the body did not come in time; send smaller requests")
		f.header = http.Header{"Connection": {"close"}}
		return f
	}
	return faultOf(http.StatusBadRequest, "incomplete_body", "the body ended early or was malformed on the way; send it again")
}

func requestTooLarge() *fault {
	return faultOf(http.StatusRequestEntityTooLarge, "request_too_large",
		fmt.Sprintf("the request is over %d bytes: send several smaller ones", MaxRequestBytes))
}
