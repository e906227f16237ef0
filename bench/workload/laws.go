package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"keyfold/proof/notifyoracle"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/sink/ledger"
)

// Laws are the sets that were in force and what was accepted under them.
type Laws struct {
	local  notify.Local
	policy *notify.Policy               // of the first set: the others tell texts apart as it does
	sets   map[string]*notifyoracle.Set // by the number or version that records name
	events map[uuid.UUID]*notify.Notification
}

// NewLaws reads a set's document. number is that under which it was published, "" where it
// is of a file.
func NewLaws(document []byte, number string, local notify.Local) (*Laws, error) {
	l := &Laws{local: local, sets: map[string]*notifyoracle.Set{}, events: map[uuid.UUID]*notify.Notification{}}
	return l, l.Add(document, number)
}

// ShippedLaws are those of a worker that was told nothing: the set that setup publishes.
func ShippedLaws() (*Laws, error) {
	hours := ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: "09:00,18:00"}
	local, err := hours.Local()
	if err != nil {
		return nil, err
	}
	return NewLaws(rule.Default(), "1", local)
}

// Add takes in a further set.
func (l *Laws) Add(document []byte, number string) error {
	read, faults := rule.Read(document)
	if read == nil {
		return faults.Err()
	}
	set := rule.Compile(read, l.local)
	set.Version = cmp.Or(number, set.Version)
	if l.policy == nil {
		l.policy = &set.Policy
	}
	var err error
	l.sets[set.Version], err = notifyoracle.NewSet(set, document)
	return err
}

// Accepted takes in an event that a broker or the API has confirmed, each time it has.
func (l *Laws) Accepted(e *notify.Notification) {
	e.Print = l.policy.Print(e)
	l.events[e.ID] = e
}

// Count returns how many different events were accepted.
func (l *Laws) Count() int { return len(l.events) }

// Findings is what a run came to.
type Findings struct {
	Events, Decisions, Users int
	Sets                     map[string]int // decisions by the set that made them
	Undecided                int            // accepted events without a record
	Outcomes                 map[notify.Outcome]int
	Expired                  int // records NEVER with EXPIRED
	Deferred                 int // records of turns after the first
	Digested                 int // NOWs of a digest
	Late                     int // NOWs that expired before their dispatch
	FollowUps                int // NOWs on other channels
	Cancelled, Replaced      int
	Merged                   int // users who have an alias with decisions
	Read                     int // follow-ups that ended because of a report
	Limited                  int // LATERs by a limit
	Sent, Repeats            int // dispatches, and those received again
	Violations               []notifyoracle.Violation
	Deliveries               map[uuid.UUID]notify.Status // by dispatch
}

// Store is what Judge reads of a ledger.
type Store interface {
	Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error]
	Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error)
	Find(ctx context.Context, decisions []uuid.UUID) ([]notify.Known, error)
}

// Judge compares the ledger with what was accepted and with what the senders received.
// over says that nothing waits anywhere: every deferral is decided, every NOW dispatched.
func (l *Laws) Judge(ctx context.Context, store Store, sent []notifyoracle.Sent, over bool) (*Findings, error) {
	f := &Findings{Outcomes: map[notify.Outcome]int{}, Sets: map[string]int{}, Deliveries: map[uuid.UUID]notify.Status{}}
	run := &notifyoracle.Run{
		Events: slices.Collect(maps.Values(l.events)), Sent: sent,
		Sets: l.sets,
	}
	if over {
		run.End = engine.Now()
	}
	undecided, posted := maps.Clone(l.events), map[uuid.UUID]string{}
	for d, err := range store.Records(ctx, ledger.Filter{Oldest: true}) {
		if err != nil {
			return nil, err
		}
		run.Records = append(run.Records, d.Record)
		delete(undecided, d.Record.EventID)
		if f.add(&d); d.Event != nil {
			posted[d.Record.EventID] = d.Event.UserID
		}
	}
	f.Events, f.Decisions, f.Undecided = len(l.events), len(run.Records), len(undecided)
	var err error
	if run.States, err = states(ctx, store, run.Records); err != nil {
		return nil, err
	}
	if run.Merges, err = unmerged(run.Records, posted); err != nil {
		return nil, err
	}
	f.Users, f.Merged = len(run.States), len(run.Merges)
	f.countSent(sent)
	f.Violations = slices.Concat(notifyoracle.Check(run), notifyoracle.Replay(run))
	if over {
		err = l.judgeKeys(ctx, store, run, f)
	}
	return f, err
}

func (f *Findings) add(d *notify.Decided) {
	r := &d.Record
	f.Outcomes[r.Outcome]++
	f.Sets[r.RuleVersion]++
	if d.Delivery.Error == notify.ErrorExpired {
		f.Late++
	}
	f.addBeside(r)
	switch {
	case slices.Contains(r.Reasons, notify.ReasonExpired):
		f.Expired++
	case r.DigestID != uuid.Nil:
		f.Digested++
		f.Deliveries[r.DigestID] = d.Delivery.Status
	case r.Outcome == notify.Now:
		f.Deliveries[r.EventID] = d.Delivery.Status
	}
	if r.Turn > 0 {
		f.Deferred++
	}
}

// addBeside counts what follows, what was withdrawn and what limits hold.
func (f *Findings) addBeside(r *notify.Record) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	has := func(reason string) bool { return slices.Contains(r.Reasons, reason) }
	count(&f.FollowUps, r.Facts.Root != uuid.Nil && r.Outcome == notify.Now)
	count(&f.Cancelled, has(notify.ReasonCancelled))
	count(&f.Replaced, has(notify.ReasonReplaced))
	count(&f.Read, has(notify.ReasonRead) || has(notify.ReasonDelivered))
	count(&f.Limited, r.Outcome == notify.Later && has(notify.ReasonLimit))
}

func (f *Findings) countSent(sent []notifyoracle.Sent) {
	met := map[uuid.UUID]bool{}
	for i := range sent {
		if met[sent[i].ID] {
			f.Repeats++
		}
		met[sent[i].ID] = true
	}
	f.Sent = len(met)
}

// states reads the states of all users with records.
func states(ctx context.Context, store Store, records []notify.Record) (map[string]*notify.State, error) {
	all := map[string]*notify.State{}
	for i := range records {
		all[records[i].UserID] = nil
	}
	for users := range slices.Chunk(slices.Collect(maps.Keys(all)), 500) {
		asks := make([]notify.Ask, len(users))
		for i, user := range users {
			asks[i].User = user
		}
		standings, err := store.Load(ctx, asks)
		if err != nil {
			return nil, err
		}
		for i, user := range users {
			all[user] = standings[i].State
		}
	}
	return all, nil
}

// LawHandOver is beside the oracle's laws.
const LawHandOver = "each NOW has a confirmed dispatch, or has expired before"

// judgeKeys looks at the key of each NOW that no sender got. Check excuses it where the
// event has expired by the end; its key must say that the dispatch was confirmed, so
// that it has expired in the senders' queue, or that it has expired before.
func (l *Laws) judgeKeys(ctx context.Context, store Store, run *notifyoracle.Run, f *Findings) error {
	received := map[uuid.UUID]bool{}
	for i := range run.Sent {
		for _, id := range run.Sent[i].Events {
			received[id] = true
		}
	}
	var nows []*notify.Record
	for i := range run.Records {
		if r := &run.Records[i]; r.Outcome == notify.Now && !received[r.EventID] {
			nows = append(nows, r)
		}
	}
	for part := range slices.Chunk(nows, 500) {
		ids := make([]uuid.UUID, len(part))
		for i, r := range part {
			ids[i] = r.DecisionID
		}
		keys, err := store.Find(ctx, ids)
		if err != nil {
			return err
		}
		for i, r := range part {
			switch e := l.events[r.EventID]; {
			case !keys[i].Dispatched:
				f.violated(r, "neither a sender nor its key has it")
			case e != nil && e.ExpiresAt == 0:
				f.violated(r, "its key says that the dispatch was confirmed, and no sender got it")
			}
		}
	}
	return nil
}

func (f *Findings) violated(r *notify.Record, text string) {
	f.Violations = append(f.Violations, notifyoracle.Violation{Law: LawHandOver, User: r.UserID, Event: r.EventID, Text: text})
}

// Of returns how many violations of laws there are.
func (f *Findings) Of(laws ...string) (n int) {
	for i := range f.Violations {
		if slices.Contains(laws, f.Violations[i].Law) {
			n++
		}
	}
	return n
}

// String tells what was found, in the words of the promise.
func (f *Findings) String() string {
	return fmt.Sprintf(`events       %d accepted of %d users: %d decisions (NOW %d, LATER %d, NEVER %d), %d after a deferral, %d in digests, %d EXPIRED
beside       %d follow-ups sent, %d ended by a report, %d cancelled, %d replaced, %d held by a limit, %d users merged
dispatches   %d ids, %d received again; %d NOWs expired before their hand-over
promises     %d events without a decision, %d with two for one turn or without an end, %d NOWs not under one id
             %d states that differ from the fold of the records, %d differences to the oracle, %d other violations`,
		f.Events, f.Users, f.Decisions, f.Outcomes[notify.Now], f.Outcomes[notify.Later], f.Outcomes[notify.Never], f.Deferred, f.Digested, f.Expired,
		f.FollowUps, f.Read, f.Cancelled, f.Replaced, f.Limited, f.Merged, f.Sent, f.Repeats, f.Late,
		f.Undecided, f.Of(notifyoracle.LawTurns, notifyoracle.LawEnds, notifyoracle.LawOneNow), f.Of(notifyoracle.LawDispatch, LawHandOver),
		f.Of(notifyoracle.LawState), f.Of(notifyoracle.LawOracle), f.Of(notifyoracle.LawKnown, notifyoracle.LawCaps, notifyoracle.LawLimits,
			notifyoracle.LawQuiet, notifyoracle.LawExpiry, notifyoracle.LawChannels, notifyoracle.LawWithdraw, notifyoracle.LawDigest, notifyoracle.LawShown))
}

// Err returns the violations, nil where there are none.
func (f *Findings) Err() error {
	if len(f.Violations) == 0 {
		if f.Undecided > 0 {
			return fmt.Errorf("%d events have no decision", f.Undecided)
		}
		return nil
	}
	const shown = 20
	var lines []string
	for _, v := range f.Violations[:min(shown, len(f.Violations))] {
		lines = append(lines, v.String())
	}
	if more := len(f.Violations) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return errors.New("laws are broken:\n  " + strings.Join(lines, "\n  "))
}
