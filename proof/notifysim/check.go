package notifysim

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
	"keyfold/sink/ledger"
)

// The boundaries at which a life may end: those of the failpoints.
const (
	claimed      = failpoint.Claimed
	beforeCommit = failpoint.BeforeCommit
	afterCommit  = failpoint.AfterCommit
	dispatched   = failpoint.Dispatched
	marked       = failpoint.Marked
)

// check checks what is left when a schedule has ended.
func (s *simulation) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := notifyoracle.Run{
		Records: s.store.log, Merges: s.store.merges, Sent: s.senders.sent, End: s.now() + minute,
		Sets: map[string]*notifyoracle.Set{sets[0].Version: sets[0].oracle, sets[1].Version: sets[1].oracle},
	}
	for _, e := range s.plan.events {
		e.Print = sets[0].Policy.Print(e)
		run.Events = append(run.Events, e)
	}
	for _, v := range notifyoracle.Replay(&run) {
		s.fault("%v", v)
	}
	// What an erased user's events come to is another law's: checkErased.
	gone := func(user string) bool { _, gone := s.erased[user]; return gone }
	run.Events = slices.DeleteFunc(run.Events, func(e *notify.Notification) bool { return gone(e.UserID) })
	run.Records = slices.DeleteFunc(slices.Clone(run.Records), func(r notify.Record) bool { return gone(r.UserID) })
	left := map[uuid.UUID]bool{}
	for _, e := range run.Events {
		for _, id := range withFollowUps(e.ID) {
			left[id] = true
		}
	}
	run.Sent = slices.DeleteFunc(slices.Clone(run.Sent), func(sent notifyoracle.Sent) bool {
		return !slices.ContainsFunc(sent.Events, func(id uuid.UUID) bool { return left[id] })
	})
	run.States = s.states(&run)
	for _, v := range notifyoracle.Check(&run) {
		s.fault("%v", v)
	}
	s.checkFirst(&run)
	s.checkReports(run.Records)
	s.checkReported(run.Records)
	for user, at := range s.erased {
		s.checkErased(user, at)
	}
	return errors.Join(s.faults...)
}

// states returns what is stored of the users. Each state is the fold of the user's
// records, and these are the ones that were written.
func (s *simulation) states(run *notifyoracle.Run) map[string]*notify.State {
	states := map[string]*notify.State{}
	for _, id := range s.ids() {
		_, gone := s.erased[id]
		switch {
		case gone:
		case s.person(id) != id:
			s.checkAlias(id)
		default:
			if state := s.stateOf(run, id); state != nil {
				states[id] = state
			}
		}
	}
	return states
}

// stateOf returns what is stored of a user, nil where nothing is.
func (s *simulation) stateOf(run *notifyoracle.Run, id string) *notify.State {
	var fold notify.State
	var stored, written []uuid.UUID
	for d, err := range s.store.Records(context.Background(), ledger.Filter{User: id, Oldest: true}) {
		if err != nil {
			s.fault("records of user %s: %w", id, err)
		}
		fold.Fold(&d.Record)
		stored = append(stored, d.Record.DecisionID)
	}
	for _, r := range run.RecordsOf(id) {
		written = append(written, r.DecisionID)
	}
	if !slices.Equal(stored, written) {
		s.fault("user %s: %d records are stored, %d were written, or they have another order", id, len(stored), len(written))
	}
	standing, err := s.store.Load(context.Background(), []notify.Ask{{User: id}})
	if err != nil || standing[0].State == nil {
		if len(written) > 0 || err != nil {
			s.fault("user %s has no state: %v", id, err)
		}
		return nil
	}
	if state := standing[0].State; !sameState(&fold, state) {
		s.fault("user %s: the state is not the fold of the records: %+v, want %+v", id, state, fold)
	}
	if v, err := ledger.Verify(context.Background(), s.store, id, 0); err != nil || len(v.Differences) > 0 {
		s.fault("user %s: %q, %v", id, v.Differences, err)
	}
	return standing[0].State
}

func sameState(a, b *notify.State) bool {
	x, y := *a, *b
	same := slices.Equal(x.Sends, y.Sends) && slices.EqualFunc(x.Marks, y.Marks, func(a, b notify.Mark) bool { return reflect.DeepEqual(a, b) })
	same = same && slices.Equal(x.Reserved, y.Reserved) && slices.Equal(x.Sent, y.Sent)
	x.Sends, y.Sends, x.Marks, y.Marks, x.Reserved, y.Reserved, x.Sent, y.Sent = nil, nil, nil, nil, nil, nil, nil, nil
	return same && reflect.DeepEqual(x, y)
}

// checkFirst checks that each NOW is in the first dispatch of its id, unless it expired:
// senders drop an id that they know.
func (s *simulation) checkFirst(run *notifyoracle.Run) {
	first := s.senders.first()
	expires := map[uuid.UUID]bool{}
	for _, e := range run.Events {
		for _, id := range withFollowUps(e.ID) {
			expires[id] = e.ExpiresAt != 0 && e.ExpiresAt <= run.End
		}
	}
	for i := range run.Records {
		r := &run.Records[i]
		if r.Outcome == notify.Now && r.DigestID != uuid.Nil && !expires[r.EventID] && !slices.Contains(first[r.DigestID], r.EventID) {
			s.fault("user %s: event %v of digest %v is not in its first dispatch", r.UserID, r.EventID, r.DigestID)
		}
	}
}

// withFollowUps returns an event's id, and those that its follow-ups can have.
func withFollowUps(id uuid.UUID) []uuid.UUID { return append(notify.FollowIDs(id), id) }

// checkReported checks that no follow-up was told of what no sender has reported, and that
// none ended by a report that there was not.
func (s *simulation) checkReported(records []notify.Record) {
	said := map[uuid.UUID]notify.Reported{}
	for i := range records {
		if r := &records[i]; r.Outcome == notify.Now {
			if said[r.EventID] = s.senders.said[r.EventID]; r.DigestID != uuid.Nil {
				said[r.EventID] = s.senders.said[r.DigestID]
			}
		}
	}
	for i := range records {
		r := &records[i]
		if r.Facts.Root == uuid.Nil {
			continue
		}
		var all notify.Reported
		for _, id := range notifyoracle.StepsBefore(&notify.Follows{Root: r.Facts.Root, Step: r.Facts.Step}) {
			all |= said[id]
		}
		if r.Facts.Reported&^all != 0 {
			s.fault("user %s: step %d of %v was told %b, reported was %b", r.UserID, r.Facts.Step, r.Facts.Root, r.Facts.Reported, all)
		}
	}
}

// checkReports checks that each NOW has the delivery that its reports come to, whatever
// their order and number.
func (s *simulation) checkReports(records []notify.Record) {
	sent := map[uuid.UUID]bool{}
	for i := range s.senders.sent {
		for _, id := range s.senders.sent[i].Events {
			sent[id] = true
		}
	}
	for i := range records {
		r := &records[i]
		if r.Outcome != notify.Now {
			continue
		}
		d, err := s.store.Decision(context.Background(), r.DecisionID)
		if err != nil || d == nil {
			s.fault("decision %v is not stored: %v", r.DecisionID, err)
			continue
		}
		id := r.EventID
		if r.DigestID != uuid.Nil {
			id = r.DigestID
		}
		want, reported := s.senders.greatest[id]
		expired := d.Delivery.Status == notify.DeliveryFailed && d.Delivery.Error == notify.ErrorExpired
		switch {
		case !sent[r.EventID] && !expired && !reported: // a digest is reported with the items that had expired
			s.fault("event %v was not sent, and its delivery is %+v", r.EventID, d.Delivery)
		case reported && d.Delivery != want && (!expired || want.Status == notify.Delivered):
			s.fault("event %v: the delivery is %+v, the reports come to %+v", r.EventID, d.Delivery, want)
		}
	}
}

// checkErased checks that nothing of an erased user's is left, and nothing is sent.
func (s *simulation) checkErased(user string, at time.Time) {
	turns := map[uuid.UUID]bool{}
	for i := range s.store.log {
		r := &s.store.log[i]
		if s.person(r.UserID) != s.person(user) {
			continue
		}
		turns[r.EventID] = true
		d, err := s.store.Decision(context.Background(), r.DecisionID)
		if err != nil || d == nil || d.Event != nil || d.Record.UserID != "" {
			s.fault("erased user %s: decision %v is not blanked: %v", user, r.DecisionID, err)
		}
	}
	for _, e := range s.plan.events {
		if e.UserID == user && !turns[e.ID] {
			s.fault("erased user %s: event %v has no decision", user, e.ID)
		}
	}
	const onItsWay = 2 * time.Minute
	for i, sent := range s.senders.sent {
		for _, e := range s.plan.events {
			is := func(id uuid.UUID) bool { return slices.Contains(sent.Events, id) }
			if e.UserID == user && slices.ContainsFunc(withFollowUps(e.ID), is) && s.senders.times[i] > at.Sub(s.Began)+onItsWay {
				s.fault("erased user %s: event %v is dispatched %v after the erasure", user, e.ID, s.senders.times[i]-at.Sub(s.Began))
			}
		}
	}
}

// counts is what a schedule met.
type counts struct {
	Conflicts, Unknowns, Again, Expired, Postponed, Digests, Later, Repeated, Killed, Erased int64
	FollowUps, Cancelled, Replaced, ReadEnds, Limits, TopicDigests, Snoozed                  int64
	Merged, MergedAgain, MergeConflicts, OfAliases, DigestsOfTwo                             int64
}

func (c *counts) add(o counts) {
	a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(o)
	for i := range a.NumField() {
		a.Field(i).SetInt(a.Field(i).Int() + b.Field(i).Int())
	}
}

// missed names what was not met.
func (c counts) missed() (names []string) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).Int() == 0 {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

// met counts what a record has of follow-ups, cancellations, limits and wishes.
func (c *counts) met(r *notify.Record) {
	if r.Facts.Root != uuid.Nil && r.Outcome == notify.Now {
		c.FollowUps++
	}
	for reason, n := range map[string]*int64{
		notify.ReasonCancelled: &c.Cancelled, notify.ReasonRead: &c.ReadEnds, notify.ReasonDelivered: &c.ReadEnds,
		notify.ReasonLimit: &c.Limits, notify.ReasonTopicDigest: &c.TopicDigests, notify.ReasonSnoozed: &c.Snoozed,
	} {
		if slices.Contains(r.Reasons, reason) {
			*n++
		}
	}
}

// counts returns what the schedule met.
func (s *simulation) counts() (c counts) {
	for _, k := range s.started {
		if k.dead.Load() {
			c.Killed++
		}
		if k.notifier == nil {
			continue
		}
		stats := k.notifier.Processor.Stats()
		c.Conflicts += stats.Conflicts.Load()
		c.Unknowns += stats.Unknowns.Load()
		c.Again += stats.Again.Load()
		c.Expired += stats.Expired.Load()
		c.Postponed += stats.Postponed.Load()
	}
	for i := range s.store.log {
		r := &s.store.log[i]
		if r.DigestID != uuid.Nil {
			c.Digests++
		}
		if r.Outcome == notify.Later {
			c.Later++
		}
		switch {
		case slices.Contains(r.Reasons, notify.ReasonReplaced):
			c.Replaced++
		case r.DuplicateOf != uuid.Nil:
			c.Repeated++
		}
		c.met(r)
	}
	s.countMerges(&c)
	c.Erased = int64(len(s.erased))
	return c
}
