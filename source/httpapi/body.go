package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// firstRead is how many bytes a request reserves before its first byte arrives.
// A smaller Content-Length does not lower it, because headers and buffers take
// memory too.
const firstRead = 16 << 10

// copies is how many copies of a request's bytes can be in memory: the body, and
// its items once more where the application fills something in.
const copies = 2

// reservation is a request's part of its sender's share of MaxInFlightBytes.
type reservation struct {
	from   *shares
	sender string
	held   int64
}

// hold grows the reservation for a body of n bytes. It returns false if the
// sender may not have that much.
func (r *reservation) hold(n int64) bool {
	more := copies*max(n, firstRead) - r.held
	if !r.from.take(r.sender, more) {
		return false
	}
	r.held += more
	return true
}

// release gives all of it back.
func (r *reservation) release() { r.from.give(r.sender, r.held) }

// readBody reads the whole body. Memory grows with what has come, not with
// what was announced, and all of it counts against MaxInFlightBytes until the
// reservation is released.
func readBody(w http.ResponseWriter, r *http.Request, share *reservation, limit int64) ([]byte, *Answer) {
	if r.ContentLength > limit {
		return nil, requestTooLarge(limit)
	}
	most := limit + 1
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1 // one more, so that EOF needs no growth
	}
	size := min(firstRead, most)
	limited := http.MaxBytesReader(w, r.Body, limit)
	var body []byte
	for {
		if !share.hold(size) {
			return nil, busy()
		}
		grown := make([]byte, len(body), size)
		copy(grown, body)
		var err error
		if body, err = fill(limited, grown); errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, unreadable(err)
		}
		size = min(4*size, most)
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

func unreadable(err error) *Answer {
	if large, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return requestTooLarge(large.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a := refuse(http.StatusRequestTimeout, "timeout", "the body did not come in time; send smaller requests")
		a.Header = http.Header{"Connection": {"close"}}
		return a
	}
	return refuse(http.StatusBadRequest, "incomplete_body", "the body ended early or was malformed on the way; send it again")
}

func requestTooLarge(limit int64) *Answer {
	return refuse(http.StatusRequestEntityTooLarge, "request_too_large",
		fmt.Sprintf("the request is over %d bytes: send several smaller ones", limit))
}

func busy() *Answer {
	return Unavailable("busy", "too many requests are in flight; send it again", nil)
}
