package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

const (
	// maxWait bounds how long a request waits for its decisions.
	maxWait = 10 * time.Second
	// maxWaited is the most notifications of a request that waits: each decision is read
	// by itself.
	maxWaited = 100
	// maxWaiting is the most requests that wait at once: each asks the ledger again and
	// again.
	maxWaiting = 64
	// pollInterval is how often the event keys are read meanwhile.
	pollInterval = 50 * time.Millisecond
)

// preferredWait reads the preference wait=N, in seconds, of RFC 7240; 0 where there is
// none. What cannot be read counts as none, as the RFC has it.
func preferredWait(header http.Header) time.Duration {
	for _, line := range header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			text, _, _ := strings.Cut(preference, ";") // parameters
			name, value, _ := strings.Cut(text, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return 0
}

// wait answers with the decisions of a published request once all are made; nil where
// they are not in time. waited is false where the ledger does not answer or too many requests
// wait already. With 409, another user's event was decided under an event_id since
// [API.lookUp], or was not found there.
func (a *API) wait(ctx context.Context, q *request, atMost time.Duration) (answer *httpapi.Answer, waited bool) {
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > maxWaiting {
		return nil, false
	}
	a.counts.Waits.Add(1)
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	defer context.AfterFunc(a.ports.Stop, cancel)()
	faulty := q.faulty
	if err := a.poll(ctx, q); err != nil {
		return nil, ctx.Err() != nil
	}
	if q.faulty > faulty {
		a.counts.Refused.Add(int64(q.faulty - faulty))
		return q.refusal(http.StatusConflict), true
	}
	decisions := make([]Decision, len(q.entries))
	made := map[uuid.UUID]Decision{} // an event may stand twice in a request
	for i := range q.entries {
		e := &q.entries[i]
		d, met := made[e.event.ID]
		if !met {
			var err error
			if d, err = a.known(ctx, e.known); err != nil {
				return nil, ctx.Err() != nil
			}
			made[e.event.ID] = d
		}
		d.Repeat = e.repeat
		decisions[i] = d
	}
	a.counts.InTime.Add(1)
	return ok(map[string]any{"decisions": decisions}), true
}

// poll reads the keys of undecided events until there is none. The error is the
// ledger's, or that of ctx.
func (a *API) poll(ctx context.Context, q *request) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		open := map[uuid.UUID][]*entry{}
		var ids []uuid.UUID
		for i := range q.entries {
			e := &q.entries[i]
			if e.known.Outcome != 0 {
				continue
			}
			if open[e.event.ID] == nil {
				ids = append(ids, e.event.ID)
			}
			open[e.event.ID] = append(open[e.event.ID], e)
		}
		if len(ids) == 0 {
			return nil
		}
		keys, err := a.keys(ctx, ids)
		if err != nil {
			return err
		}
		if err := a.learn(ctx, q, open, keys); err != nil {
			return err
		}
		if !slices.ContainsFunc(keys, func(k notify.Known) bool { return k.Outcome == 0 }) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// learn takes the keys of events that were decided.
func (a *API) learn(ctx context.Context, q *request, open map[uuid.UUID][]*entry, keys []notify.Known) error {
	for _, key := range keys {
		for _, e := range open[key.EventID] {
			if e.known = key; key.Outcome == 0 || key.Of(e.owner()) {
				continue
			}
			others, err := a.own(ctx, []notify.Known{key}, func(*notify.Known) *entry { return e })
			if err != nil {
				return err
			}
			if len(others) > 0 {
				q.compare(e, key.User, nil)
			}
		}
	}
	return nil
}
