package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
	"keyfold/proof/notifyoracle"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// TestReplaysOfRandomSetsKeepTheLaws sends random events through the processor and a
// ledger, every second time with cancellations, replacements and reports between: the
// records, dispatches and states that it leaves are a run of the oracle.
func TestReplaysOfRandomSetsKeepTheLaws(t *testing.T) {
	w, err := New()
	must.OK(t, err)
	records, met := 0, map[string]int{}
	for number := range uint64(histories / 20) {
		run, _ := w.replay(t, number*setsEvery, cosines{}, nil)
		records += len(run.Records)
		for i := range run.Records {
			met[run.Records[i].Reasons[0]]++
		}
		for _, v := range slices.Concat(notifyoracle.Check(run), notifyoracle.Replay(run)) {
			t.Errorf("history %d: %v", number*setsEvery, v)
		}
		if t.Failed() {
			return
		}
	}
	if records < histories {
		t.Errorf("%d records", records)
	}
	for _, reason := range beside {
		if histories >= 1000 && met[reason] == 0 {
			t.Errorf("no record is %s", reason)
		}
	}
}

// TestReplaysOfMergedUsersKeepTheLaws sends events of two ids each through the processor and a
// ledger, which are merged on the way. Records and states agree, and the set that made the
// decisions changes none of them after the merge.
//
// Promise(notify/aliases)
func TestReplaysOfMergedUsersKeepTheLaws(t *testing.T) {
	w, err := New()
	must.OK(t, err)
	w.Draw.New = All
	of, digests := 0, map[uuid.UUID]string{}
	for number := range uint64(histories / 20) {
		number *= setsEvery
		run, store := w.replayWith(t, number, cosines{}, nil, true)
		for _, v := range slices.Concat(notifyoracle.Check(run), notifyoracle.Replay(run)) {
			t.Errorf("history %d: %v", number, v)
		}
		for user := range run.States {
			if v, err := ledger.Verify(t.Context(), store, user, 0); err != nil || len(v.Differences) > 0 {
				t.Errorf("history %d, %s: %+v, %v", number, user, v, err)
			}
		}
		if report, _ := simulated(t, store, pickSet(w, run), 0); report.Changed != 0 || report.Added != 0 {
			t.Errorf("history %d, the set in force: %+v", number, report)
		}
		if t.Failed() {
			return
		}
		for d, err := range store.Records(t.Context(), ledger.Filter{Oldest: true}) {
			if id := d.Record.DigestID; err == nil && id != uuid.Nil {
				if other, met := digests[id]; met && other != d.Event.UserID {
					of++
				}
				digests[id] = d.Event.UserID
			}
		}
	}
	if histories >= 1000 && of < 10 {
		t.Errorf("%d digests have items of two ids", of)
	}
}

// beside are the reasons that cancellations, replacements, follow-ups and reports of them
// leave in records.
var beside = []string{
	notify.ReasonCancelled, notify.ReasonReplaced, notify.ReasonReplaces, notify.ReasonRead, notify.ReasonDelivered,
	notify.ReasonEscalated, notify.ReasonOtherChannel, notify.ReasonTopicDigest,
}

// replay has 8 users, whose events come in groups of random sizes. changed makes another
// set of the drawn one; nil: it decides itself.
func (w *World) replay(t *testing.T, number uint64, scores notify.Scores, changed func(sets) sets) (*notifyoracle.Run, *memory.Ledger) {
	t.Helper()
	return w.replayWith(t, number, scores, changed, false)
}

// replayWith is replay, where each user is merged with another one on the way, or is not.
func (w *World) replayWith(t *testing.T, number uint64, scores notify.Scores, changed func(sets) sets, merging bool) (*notifyoracle.Run, *memory.Ledger) {
	t.Helper()
	must.OK(t, w.drawSets(number))
	w.rng.seed(number, 3)
	s := pick(w.rng, w.sets)
	if changed != nil {
		s = changed(s)
	}
	run := &notifyoracle.Run{Sets: map[string]*notifyoracle.Set{s.ours.Version: s.ours}, States: map[string]*notify.State{}, End: 1 << 50}
	store, out := &logged{Ledger: memory.New(), run: run}, &outbox{}
	config := processor.DefaultConfig()
	config.Replay, config.Pause = true, time.Microsecond
	p, err := processor.New(config, processor.Ports{
		Ledger: store, Dispatcher: out, Sets: inForce{s.theirs}, Scores: scores, Clock: func() engine.Millis { return 0 },
	})
	must.OK(t, err)
	for i := range 8 {
		r := &replayed{World: w, t: t, processor: p, store: store, run: run, set: s}
		user := fmt.Sprint("user ", i)
		if run.States[user] = nil; merging {
			r.decide(user, user+" too")
		} else {
			r.decide(user)
		}
	}
	must.OK(t, p.FinishReplay(t.Context()))
	for user := range run.States {
		standing, err := store.Load(t.Context(), []notify.Ask{{User: user}})
		must.OK(t, err)
		run.States[user] = standing[0].State
	}
	decided := map[uuid.UUID]engine.Millis{}
	for i := range run.Records {
		decided[run.Records[i].EventID] = run.Records[i].DecidedAt
	}
	for _, sent := range out.got {
		sent.At = decided[sent.Events[0]]
		run.Sent = append(run.Sent, sent)
	}
	return run, store.Ledger
}

// logged is a ledger that keeps what is written to it in a run.
type logged struct {
	*memory.Ledger
	run *notifyoracle.Run
}

// Commit implements [notify.Ledger].
func (l *logged) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	errs := l.Ledger.Commit(ctx, changes, marks)
	for i := range changes {
		for j := range changes[i].Decided {
			if errs[i] == nil {
				l.run.Records = append(l.run.Records, changes[i].Decided[j].Record)
			}
		}
	}
	return errs
}

// Merge implements [ledger.Merger].
func (l *logged) Merge(ctx context.Context, m *notify.Merge) (int, error) {
	n, err := l.Ledger.Merge(ctx, m)
	if err == nil {
		l.run.Merges = append(l.run.Merges, notifyoracle.Merge{Alias: m.Alias, Into: m.Into, AliasVersion: m.AliasVersion, IntoVersion: m.IntoVersion})
	}
	return n, err
}

// replayed are one user's events on their own clock.
type replayed struct {
	*World
	t         *testing.T
	processor *processor.Processor
	store     *logged
	run       *notifyoracle.Run
	set       sets
	settler   processor.Settler
	others    map[string]*outside // by id
	mergedAt  engine.Millis
}

// post is a delivery of an id.
type post struct {
	id string
	processor.Delivery
}

// decide decides events of a user's ids, which are merged on the way.
func (r *replayed) decide(ids ...string) {
	h := &history{World: r.World, person: r.newPerson(ids[0]), set: r.set, place: &r.places[r.rng.IntN(len(r.places))], run: r.run}
	h.start()
	r.settler = processor.SettlerFunc(func(v processor.Verdict) {
		if v.Outcome != processor.Decided && (!r.fresh || v.Outcome != processor.Known) {
			r.t.Errorf("user %s: %v %v", ids[0], v.Outcome, v.Err)
		}
	})
	r.others = map[string]*outside{}
	reports, seen := map[uuid.UUID]notify.Reported{}, map[uuid.UUID]bool{}
	for i, id := range ids {
		if i > 0 {
			h.change()
		}
		must.OK(r.t, r.store.SetPreferences(r.t.Context(), id, h.prefs))
		r.others[id] = &outside{history: h, t: r.t, user: id, store: r.store.Ledger, reports: reports, seen: seen}
	}
	before, after := r.posts(h, ids)
	r.apply(before)
	if len(ids) > 1 {
		if _, err := ledger.MergeUsers(r.t.Context(), r.store, ids[1], ids[0], r.mergedAt); err != nil {
			r.t.Fatal(err)
		}
	}
	r.apply(after)
}

// posts draws what comes before the ids are merged, and after it.
func (r *replayed) posts(h *history, ids []string) (before, after []post) {
	all, merge := &before, -1
	if len(ids) > 1 {
		merge = r.rng.IntN(20)
	}
	for i := range 20 {
		h.now = h.nextTime()
		if i == merge {
			r.mergedAt, all = h.now, &after
		}
		id, by := ids[0], ids[0]
		if len(ids) > 1 {
			id = pick(r.rng, ids)
			if by = id; all == &after { // any id of the person names events of both
				by = pick(r.rng, ids)
			}
		}
		e := h.newEvent(id)
		e.Timestamp, e.Person = h.now, ""
		r.others[by].comes(e.Notification)
		if e.ExpiresAt != 0 {
			e.ExpiresAt = max(e.ExpiresAt, h.now+1)
		}
		*all = append(*all, post{id, processor.Delivery{Event: e.Notification, At: h.now, Settler: r.settler}})
		if d := r.others[by].delivery(r.settler); d != nil {
			*all = append(*all, post{by, *d})
		}
	}
	return before, after
}

// apply decides deliveries in groups of random sizes, each id's in a batch of its own.
func (r *replayed) apply(posts []post) {
	for len(posts) > 0 {
		n := 1 + r.rng.IntN(len(posts))
		var batches []processor.Batch
		for _, p := range posts[:n] {
			at := slices.IndexFunc(batches, func(b processor.Batch) bool { return b.User == p.id })
			if at < 0 {
				at, batches = len(batches), append(batches, processor.Batch{User: p.id})
			}
			batches[at].Deliveries = append(batches[at].Deliveries, p.Delivery)
		}
		r.processor.Apply(r.t.Context(), batches)
		posts = posts[n:]
		for _, id := range slices.Sorted(maps.Keys(r.others)) {
			r.others[id].report()
		}
	}
}

type inForce struct{ *notify.Set }

func (s inForce) Current() *notify.Set { return s.Set }

// cosines follow from the events' ids; a third is not known.
type cosines struct{}

func (cosines) Score(_ context.Context, _ *notify.Policy, events []*notify.Notification) (scores []notify.Score) {
	for _, e := range events {
		scores = append(scores, notify.Score{Known: e.ID[0]%3 != 0, Cosine: float64(e.ID[1])/256 - .3})
	}
	return scores
}

// outbox keeps what it is given.
type outbox struct {
	mu  sync.Mutex
	got []notifyoracle.Sent
}

func (o *outbox) Send(_ context.Context, all []notify.Dispatch) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range all {
		sent := notifyoracle.Sent{ID: all[i].ID}
		for _, e := range all[i].Events {
			sent.Events = append(sent.Events, e.ID)
		}
		o.got = append(o.got, sent)
	}
	return make([]error, len(all))
}
