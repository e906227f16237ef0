package simulate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
)

// Store has the decisions. Each call reads a bounded part, and leaves no transaction open:
// retention and workers go on beside a simulation.
type Store interface {
	Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error]
	// Aliases returns the ids that stand for a user.
	Aliases(ctx context.Context, user string) ([]notify.Alias, error)
	// UsersSince returns the ids of at most n users that follow one, in the order of the
	// ids, with a decision at or after since. Erased ones are left out.
	UsersSince(ctx context.Context, since engine.Millis, after string, n int) ([]string, error)
	// CountErased returns how many decisions from one instant to before another are of
	// erased users: they have neither user nor event.
	CountErased(ctx context.Context, from, to engine.Millis) (int64, error)
}

// Config says what is decided anew.
type Config struct {
	Set    *notify.Set // the candidate
	From   engine.Millis
	To     engine.Millis // above the newest decided_at
	User   string        // "": every user
	Sample float64       // share of the users, above 0 up to 1; the same ones each time
	// Each hears of every decision; nil of was or would: it is not made there. nil: nothing
	// is told.
	Each func(was, would *notify.Record)
	// Done hears how many decisions were read so far; nil: nothing is told.
	Done func(int64)
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var faults engine.Faults
	faults.If(c.To <= c.From, "--last must be above 0")
	faults.If(!(c.Sample > 0 && c.Sample <= 1), "--sample is %v: it must be above 0 and at most 1", c.Sample)
	err := faults.Err()
	if c.User != "" {
		err = errors.Join(err, preference.CheckUser(c.User))
	}
	return err
}

// Last is [Run] over the decisions of this time before the newest one.
func Last(ctx context.Context, store Store, c Config, last time.Duration) (*Report, error) {
	var newest engine.Millis
	for d, err := range store.Records(ctx, ledger.Filter{Limit: 1}) {
		if err != nil {
			return nil, err
		}
		newest = d.Record.DecidedAt
	}
	c.From, c.To = newest+1-engine.Millis(last.Milliseconds()), newest+1
	return Run(ctx, store, c)
}

// usersAtOnce is how many ids of users are read at a time.
const usersAtOnce = 1000

// Run decides the records of a window anew. One user's records of the window, and of the
// set's horizon before it, are in memory at a time.
func Run(ctx context.Context, store Store, c Config) (*Report, error) {
	report := newReport(&c)
	if c.User != "" {
		err := runUser(ctx, store, &c, report, c.User)
		report.finish()
		return report, err
	}
	erased, err := store.CountErased(ctx, c.From, c.To)
	if err != nil {
		return nil, fmt.Errorf("count the decisions of erased users: %w", err)
	}
	report.NotReplayable += erased
	for after := ""; ; {
		ids, err := store.UsersSince(ctx, c.From, after, usersAtOnce)
		if err != nil {
			return nil, fmt.Errorf("read the users: %w", err)
		}
		for _, id := range ids {
			if !sampled(id, c.Sample) {
				continue
			}
			if err := runUser(ctx, store, &c, report, id); err != nil {
				return nil, err
			}
		}
		if len(ids) < usersAtOnce {
			report.finish()
			return report, nil
		}
		after = ids[len(ids)-1]
	}
}

// sampled reports whether a user belongs to a share of all.
func sampled(id string, share float64) bool {
	if share >= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	x := h.Sum64() // the high bits of FNV of short texts are alike: they are mixed
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11)/(1<<53) < share
}

func runUser(ctx context.Context, store Store, c *Config, report *Report, id string) error {
	var recorded []notify.Decided
	filter := ledger.Filter{User: id, From: max(0, c.From-notify.MaxHorizon), To: c.To, Oldest: true}
	for d, err := range store.Records(ctx, filter) {
		if err != nil {
			return fmt.Errorf("read the decisions of a user: %w", err)
		}
		recorded = append(recorded, d)
	}
	aliases, err := store.Aliases(ctx, id)
	if err != nil {
		return fmt.Errorf("read the aliases of a user: %w", err)
	}
	from := c.From
	for _, a := range aliases { // what two decided that are one now cannot be decided anew as one
		from = max(from, a.MergedAt+1)
	}
	u := newUser(c.Set, from, recorded)
	u.replay(c.To - 1)
	report.add(id, u, c)
	if c.Done != nil {
		c.Done(report.Read)
	}
	return nil
}
