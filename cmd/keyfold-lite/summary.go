package main

import (
	"context"
	"time"

	"keyfold/engine"
	"keyfold/service/profile/recommend"
	"keyfold/service/profile/users"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
)

// summary is what a run amounts to. Every event read or recovered is in exactly
// one of folded, duplicate, skipped, dead and pending.
type summary struct {
	Events    int     `json:"events"` // read from the input or posted
	Recovered int64   `json:"recovered"`
	Folded    int64   `json:"folded"`
	Duplicate int64   `json:"duplicate"`
	Skipped   int64   `json:"skipped"`
	Dead      int64   `json:"dead"`
	Pending   int64   `json:"pending"`
	Users     int64   `json:"users"` // profiles in the store
	Batches   int64   `json:"batches"`
	Writes    int64   `json:"writes"`
	Seconds   float64 `json:"seconds"`

	SkippedBy map[string]int64 `json:"skipped_by,omitempty"`
	DeadBy    map[string]int64 `json:"dead_by,omitempty"`
	FirstDead []deadEvent      `json:"first_dead,omitempty"`
	// Missing counts the stored events, of earlier runs too, that were skipped
	// because their product was unknown.
	Missing int64 `json:"product_missing_stored"`

	batched     int64 // events of the batches
	example     *users.ProfileView
	recommended *recommend.Answer // to the example's user; nil: the catalogue is too large for a report
}

// counts adds up what happened since the start.
func (n *runtime) counts() *summary {
	in := n.inbox.Stats()
	s := &summary{
		Events:    int(n.events.Load()),
		Recovered: in.Recovered,
		Folded:    in.Folded,
		Duplicate: in.Repeated + in.Duplicate,
		Skipped:   in.ProductMissing + in.UserErased,
		SkippedBy: map[string]int64{},
		DeadBy:    in.Dead,
	}
	for outcome, count := range map[engine.Outcome]int64{
		engine.ProductMissing: in.ProductMissing, engine.UserErased: in.UserErased,
	} {
		if count > 0 {
			s.SkippedBy[outcome.String()] = count
		}
	}
	for _, count := range in.Dead {
		s.Dead += count
	}
	for i := range in.FirstDead {
		s.FirstDead = append(s.FirstDead, deadEventOf(&in.FirstDead[i]))
	}
	s.Pending = n.intake.report(s)
	n.exchange.RLock()
	defer n.exchange.RUnlock()
	for _, p := range append(n.done[:len(n.done):len(n.done)], n.pipeline) {
		if p == nil {
			continue
		}
		stats := p.Processor.Stats()
		s.Batches += stats.Batches.Load()
		s.Writes += stats.Writes.Load()
		for outcome := engine.Folded; outcome <= engine.Dead; outcome++ {
			s.batched += stats.Of(outcome)
		}
	}
	return s
}

// summary is the counts with what the file holds.
func (n *runtime) summary(took time.Duration) (*summary, error) {
	s := n.counts()
	s.Seconds = took.Round(time.Millisecond).Seconds()
	// The report is also due after a signal, when n.ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), n.config.Timeout)
	defer cancel()
	pending, err := n.inbox.Pending(ctx)
	if err != nil {
		return nil, err
	}
	s.Pending += int64(pending)
	if s.Missing, err = missingEvents(ctx, n.file.Reader); err != nil {
		return nil, err
	}
	if s.Users, err = n.file.CountProfiles(ctx); err != nil || s.Users == 0 || n.JSON {
		return s, err
	}
	return s, n.exemplify(ctx, s)
}

// smallCatalogue is how many products a report reads into memory.
const smallCatalogue = 20_000

// exemplify adds the busiest user, and what is recommended to them.
func (n *runtime) exemplify(ctx context.Context, s *summary) error {
	busiest, err := n.file.BusiestUser(ctx)
	if err != nil {
		return err
	}
	products, err := n.file.CountProducts(ctx)
	if err != nil {
		return err
	}
	near := 5
	if products > 0 && products <= smallCatalogue {
		o := recommend.DefaultOptions()
		o.K, o.Explain = near, true
		if s.recommended, err = recommendTo(ctx, n.app, n.file.Reader, busiest, o); err != nil {
			return err
		}
		near = 0
	}
	s.example, err = profileView(ctx, n.app, n.file.Reader, busiest, near, 0, 5)
	return err
}

// missingEvents counts the stored events that were skipped because their product
// was unknown.
func missingEvents(ctx context.Context, file *sqlite.Reader) (all int64, err error) {
	users, err := inbox.ProductMissing(ctx, file)
	for _, events := range users {
		all += events
	}
	return all, err
}

// since is s without what before has counted; before may be nil.
func (s *summary) since(before *summary) *summary {
	if before == nil {
		return s
	}
	d := *s
	d.Events -= before.Events
	d.Recovered -= before.Recovered
	d.Folded -= before.Folded
	d.Duplicate -= before.Duplicate
	d.Skipped -= before.Skipped
	d.Dead -= before.Dead
	d.Batches -= before.Batches
	d.Writes -= before.Writes
	d.batched -= before.batched
	d.SkippedBy, d.DeadBy = less(s.SkippedBy, before.SkippedBy), less(s.DeadBy, before.DeadBy)
	d.FirstDead = s.FirstDead[len(before.FirstDead):]
	return &d
}

func less(counts, before map[string]int64) map[string]int64 {
	d := map[string]int64{}
	for name, count := range counts {
		if count > before[name] {
			d[name] = count - before[name]
		}
	}
	return d
}

// report adds what came over HTTP, and returns how much of it is not in the inbox
// yet.
func (in *httpIngest) report(s *summary) (waiting int64) {
	if in == nil {
		return 0
	}
	fresh, repeated := in.store.Stats.Stored.Load(), in.store.Stats.Repeated.Load()
	s.Events += int(fresh + repeated)
	s.Duplicate += repeated
	s.Recovered += in.left
	return max(0, in.left+fresh-in.passed.Load())
}
