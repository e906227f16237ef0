package main

import (
	"context"
	"iter"
	"os"
	"path/filepath"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
	"keyfold/source/outbox"
)

// storedEvents are the events of a data folder, those of files and those of posts, without
// those of erased users.
type storedEvents struct {
	file   *sqlite.Reader
	posts  *outbox.Database // nil: nothing was ever posted
	erased map[int32]engine.Millis
}

func openStoredEvents(a *app, file *sqlite.Reader) (h *storedEvents, err error) {
	h = &storedEvents{file: file}
	if h.erased, err = file.Erased(a.ctx); err != nil {
		return nil, err
	}
	if _, absent := os.Stat(filepath.Join(a.data, outboxName)); absent == nil {
		h.posts, err = openOutbox(a)
	}
	return h, err
}

func (h *storedEvents) close() {
	if h.posts != nil {
		_ = h.posts.Close() // it was only read
	}
}

// arrivals yields the events with their bodies by user, occurred_at and message_id.
func (h *storedEvents) arrivals(ctx context.Context) iter.Seq2[inbox.Arrival, error] {
	return func(yield func(inbox.Arrival, error) bool) {
		post, stop := iter.Pull2(h.posted(ctx))
		defer stop()
		next, err, more := post()
		for e, fault := range inbox.Bodies(ctx, h.file) {
			own := inbox.Arrival{Body: e.Body}
			if fault == nil {
				own.Event, fault = e.Event()
			}
			for ; more && (err != nil || fault == nil && before(&next.Event, &own.Event)); next, err, more = post() {
				if !h.pass(next, err, yield) {
					return
				}
			}
			if !h.pass(own, fault, yield) {
				return
			}
		}
		for ; more; next, err, more = post() {
			if !h.pass(next, err, yield) {
				return
			}
		}
	}
}

// pass yields an event unless its user is erased, and reports whether to go on.
func (h *storedEvents) pass(a inbox.Arrival, err error, yield func(inbox.Arrival, error) bool) bool {
	if _, erased := h.erased[a.Event.UserID]; erased && err == nil {
		return true
	}
	return yield(a, err) && err == nil
}

// before orders events as both stores do.
func before(a, b *profile.Event) bool {
	return a.UserID < b.UserID || a.UserID == b.UserID && a.Before(b)
}

// posted yields what came over HTTP.
func (h *storedEvents) posted(ctx context.Context) iter.Seq2[inbox.Arrival, error] {
	return func(yield func(inbox.Arrival, error) bool) {
		if h.posts == nil {
			return
		}
		for row, err := range h.posts.History(ctx, outbox.Filter{}, outbox.Position{}) {
			if engine.KindOf(err) == engine.Permanent {
				continue // it is no event
			}
			if !yield(inbox.Arrival{Body: row.Body, Event: row.Event}, err) {
				return
			}
		}
	}
}

// interactions yields what is learned from.
func (h *storedEvents) interactions(ctx context.Context) iter.Seq2[outbox.Interaction, error] {
	return func(yield func(outbox.Interaction, error) bool) {
		for a, err := range h.arrivals(ctx) {
			e := &a.Event
			if !yield(outbox.Interaction{UserID: e.UserID, ProductID: e.ProductID, OccurredAt: e.OccurredAt}, err) {
				return
			}
		}
	}
}
