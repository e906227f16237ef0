package ingest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// firstRead is what a request holds before its first byte has come, also where
// fewer are announced: what is beside the body takes room too.
const firstRead = 16 << 10

// copies is how often a request's bytes may lie in memory: as they came, and
// once more where events are completed.
const copies = 2

// lease is a request's part of its sender's share of MaxInFlightBytes.
type lease struct {
	from   *shares
	sender string
	held   int64
}

// hold makes the lease large enough for a body of n bytes. It returns false
// where that is more than the sender may have.
func (l *lease) hold(n int64) bool {
	more := copies*max(n, firstRead) - l.held
	if !l.from.take(l.sender, more) {
		return false
	}
	l.held += more
	return true
}

// release gives all of it back.
func (l *lease) release() { l.from.give(l.sender, l.held) }

// readBody reads the whole body. Memory grows with what has come, not with
// what was announced, and all of it counts against MaxInFlightBytes until the
// lease is released.
func readBody(w http.ResponseWriter, r *http.Request, share *lease) ([]byte, *reply) {
	if r.ContentLength > MaxRequestBytes {
		return nil, requestTooLarge()
	}
	most := int64(MaxRequestBytes) + 1
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1 // one more, so that EOF needs no growth
	}
	size := min(firstRead, most)
	limited := http.MaxBytesReader(w, r.Body, MaxRequestBytes)
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

func unreadable(err error) *reply {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return requestTooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a := refuse(http.StatusRequestTimeout, "timeout", "the body did not come in time; send smaller requests")
		a.header = http.Header{"Connection": {"close"}}
		return a
	}
	return refuse(http.StatusBadRequest, "incomplete_body", "the body ended early or was malformed on the way; send it again")
}

func requestTooLarge() *reply {
	return refuse(http.StatusRequestEntityTooLarge, "request_too_large",
		fmt.Sprintf("the request is over %d bytes: send several smaller ones", MaxRequestBytes))
}

func busy() *reply {
	return unavailable("busy", "too many requests are in flight; send it again")
}
