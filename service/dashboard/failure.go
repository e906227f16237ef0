package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/source/httpapi"
)

// Most of what the page of a letter shows.
const (
	lettersShown = 3 // of one id: an event that was retried in vain may have several
	fieldsShown  = 24
	headersShown = 20
	bodyShown    = 8000 // characters
	shownKept    = 64
	mostAsked    = 8 // letters that are looked for at once: each takes a pass
)

// shownFailure is a letter that was read for its page, and is kept until the next pass or action:
// a page asks again and again, and a pass is made when a person asks.
type shownFailure struct {
	done    chan struct{} // closed once the others are set
	letters []failed.Letter
	bodies  []string // as far as they are shown
	more    int
	err     error
	at      time.Time
}

// show returns the letters of a key, and has them read where they are not known.
func (x *failureIndex) show(where, key string) *shownFailure {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := where + "\x00" + key
	if s := x.shown[name]; s != nil && !s.stale(x.now()) {
		return s
	}
	s := &shownFailure{done: make(chan struct{})}
	if x.closed || x.asked == mostAsked {
		s.err = errOthersAsked
		close(s.done)
		return s
	}
	if len(x.shown) >= shownKept {
		clear(x.shown)
	}
	x.shown[name] = s
	x.asked++
	x.work.Go(func() {
		defer close(s.done)
		defer x.set(func() { x.asked-- })
		ctx, cancel := context.WithTimeout(x.ctx, longestPass)
		defer cancel()
		s.err = x.hold(ctx, func() error { return s.read(ctx, x.from, where, key) })
		s.at = x.now()
	})
	return s
}

var errOthersAsked = errors.New("others are being looked for, each in a pass of its own: look again in a moment")

// stale reports whether a letter is to be looked for anew: what failed is tried again.
func (s *shownFailure) stale(now time.Time) bool {
	select {
	case <-s.done:
		return s.err != nil && now.Sub(s.at) >= retryWait
	default:
		return false
	}
}

func (s *shownFailure) read(ctx context.Context, from *Failures, where, key string) error {
	choice := failed.Choice{Where: where, Key: key}
	_, err := from.Read(ctx, where, key, func(l *failed.Letter, _ int) bool {
		switch {
		case !choice.Matches(l):
		case len(s.letters) == lettersShown:
			s.more++
		default:
			one := *l
			s.bodies = append(s.bodies, cli.Shorten(l.Pretty(), bodyShown))
			one.Body = nil
			s.letters = append(s.letters, one)
		}
		return true
	})
	return err
}

// failureView is the page of a letter.
type failureView struct {
	ID, Where, Name string
	Path            string // of the page, without the base
	Fault           string
	Looking         bool // it is being looked for
	Letters         []letterView
	More            int
	Bodies          bool // they can be shown
	Back            string
	Of              string // the filter of this letter, for a plan
	Act             []failureAct
}

type letterView struct {
	Fields, Headers []failed.Field
	More            int // fields and headers that are not shown
	Title           string
	Body            string // "": it is not shown
}

func (d *Dashboard) failure(r *httpapi.Request) *httpapi.Answer {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, d.config.Path), failurePath)
	if key == "" {
		return d.failures(r)
	}
	ask := failuresAsk{}
	ask.Where, ask.Key = r.URL.Query().Get("where"), key
	place := d.sources.Failures.place(ask.Where)
	if place == nil {
		return noSuchFailure()
	}
	path := letterPath(ask.Where, key)
	bodies := r.Method == http.MethodPost
	if bodies && !d.config.Bodies {
		return httpapi.Refuse(http.StatusForbidden, httpapi.Fault{Reason: "no_bodies", Error: "bodies are not shown: the dashboard was not started so"})
	}
	if r.URL.Query().Has("read") {
		if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
			d.index.forget(ask.Where, key)
		}
		return d.lead(path)
	}
	v := &failureView{ID: key, Where: ask.Where, Name: place.Name, Path: path, Bodies: d.config.Bodies, Back: failuresPath, Of: ask.query().Encode()}
	s := d.index.show(ask.Where, key)
	d.index.await(r.Context(), s.done)
	v.fill(s, bodies)
	if bodies && len(v.Letters) > 0 {
		d.journal.add(entry{Who: r.Who(), From: r.Address(), Action: "failures.show", Of: ask.Words(), Done: int64(len(v.Letters)), Result: "bodies were shown"})
	}
	if d.acts(r) && len(v.Letters) > 0 {
		v.Act = d.failureActs(ask.Where)
	}
	return d.page(r, "failure", "Failure "+cli.Shorten(cli.Printable(v.ID), maxName), d.seenNow(), v)
}

// maxName is how much of an id stands in a title.
const maxName = 40

// forget has a letter looked for anew.
func (x *failureIndex) forget(where, key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.shown, where+"\x00"+key)
}

func (v *failureView) underWay() bool { return v.Looking }

func (v *failureView) fill(s *shownFailure, bodies bool) {
	select {
	case <-s.done:
	default:
		v.Looking = true
		return
	}
	if s.err != nil {
		v.Fault = s.err.Error()
	} else if len(s.letters) == 0 {
		v.Fault = "no failure of this id is there: it was retried or removed, or another tool has it in its hands"
	}
	v.More = s.more
	for i := range s.letters {
		l := &s.letters[i]
		v.ID = l.ID
		one := letterView{Fields: l.Fields(), Headers: l.HeaderFields(), Title: l.BodyTitle()}
		one.More = max(0, len(one.Fields)-fieldsShown) + max(0, len(one.Headers)-headersShown)
		one.Fields, one.Headers = one.Fields[:min(fieldsShown, len(one.Fields))], one.Headers[:min(headersShown, len(one.Headers))]
		if bodies {
			one.Body = s.bodies[i]
		}
		v.Letters = append(v.Letters, one)
	}
}

// Count is how many letters have the id.
func (v *failureView) Count() string { return strconv.Itoa(len(v.Letters) + v.More) }
