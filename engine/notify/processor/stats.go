package processor

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/recent"
)

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Outcomes   [outcomeCount]atomic.Int64 // deliveries by [Outcome]
	Decisions  Decisions                  // records
	Postponed  atomic.Int64               // deferrals that quiet hours moved
	Flushes    atomic.Int64
	Commits    atomic.Int64 // users' changes that were written
	Conflicts  atomic.Int64 // changes that met another version
	Unknowns   atomic.Int64 // changes whose outcome was read back
	Failures   atomic.Int64 // rounds that the ledger failed
	Dispatched atomic.Int64 // hand-overs that were confirmed
	Again      atomic.Int64 // of these, of decisions of an earlier flush
	Marked     atomic.Int64 // hand-overs that the ledger knows to be confirmed
	Refused    atomic.Int64 // hand-overs that failed
	Expired    atomic.Int64 // NOWs that expired before their hand-over

	FlushTime      *metric.Histogram // of calls of Apply
	CommitTime     *metric.Histogram // of the ledger's commits
	UsersPerCommit *metric.Histogram
	// DispatchTime is of events that are decided NOW as they come, from their timestamp
	// to the confirmed hand-over: urgent ones, and all others.
	DispatchTime [2]*metric.Histogram
}

// Decisions counts records by outcome and reason.
type Decisions struct {
	counts [notify.Never + 1][]atomic.Int64 // by the index in decisionReasons
	held   atomic.Int64                     // records that caps or limits hold back
	share  recent.Share                     // of these
}

// decisionReasons are those that metrics tell apart: a rule's own reason is "rule".
var decisionReasons = append(slices.Clone(notify.Reasons), "rule")

// add counts a record by the first of its reasons.
func (d *Decisions) add(r *notify.Record) {
	i := len(decisionReasons) - 1
	if len(r.Reasons) > 0 {
		if at := slices.Index(notify.Reasons, r.Reasons[0]); at >= 0 {
			i = at
		}
	}
	if r.Capped() {
		d.share.Note(d.All, d.held.Load)
		d.held.Add(1)
	}
	d.counts[r.Outcome][i].Add(1)
}

// Capped returns how many records were made since the first one of the last quarter of an hour that
// caps or limits hold back, and how many they hold back.
func (d *Decisions) Capped() (records, held int64) { return d.share.Since(d.All(), d.held.Load()) }

// All returns how many records there are.
func (d *Decisions) All() int64 { return d.Of(notify.Now) + d.Of(notify.Later) + d.Of(notify.Never) }

// Of returns how many records have an outcome.
func (d *Decisions) Of(o notify.Outcome) (n int64) {
	for i := range d.counts[o] {
		n += d.counts[o][i].Load()
	}
	return n
}

// ByReason returns the records of an outcome by the first of their reasons.
func (d *Decisions) ByReason(o notify.Outcome) map[string]int64 {
	all := map[string]int64{}
	for i := range d.counts[o] {
		if n := d.counts[o][i].Load(); n > 0 {
			all[decisionReasons[i]] = n
		}
	}
	return all
}

// Of returns how many deliveries ended with an outcome.
func (s *Stats) Of(o Outcome) int64 { return s.Outcomes[o].Load() }

// Register adds the series to set.
func (s *Stats) Register(set *metric.Set) {
	for o := Decided; o < outcomeCount; o++ {
		set.Counter(fmt.Sprintf("keyfold_notify_handled_total{outcome=%q}", o), "Events and due deferrals, by what one attempt came to.", s.Outcomes[o].Load)
	}
	for o := notify.Now; o <= notify.Never; o++ {
		set.Counters(fmt.Sprintf("keyfold_notify_decisions_total{outcome=%q}", o), "reason", "Decisions by outcome and the first of their reasons; rules' own reasons are rule.",
			func() map[string]int64 { return s.Decisions.ByReason(o) })
	}
	set.Counter("keyfold_notify_postponed_total", "Deferrals that quiet hours moved without a decision.", s.Postponed.Load)
	set.Counter("keyfold_notify_flushes_total", "Calls with the deliveries of several users.", s.Flushes.Load)
	set.Counter("keyfold_notify_commits_total", "Users' changes that were written.", s.Commits.Load)
	set.Counter("keyfold_notify_conflicts_total", "Changes that met another version of the user and were decided again.", s.Conflicts.Load)
	set.Counter("keyfold_notify_unknown_outcomes_total", "Changes without a clear answer, resolved by reading them back.", s.Unknowns.Load)
	set.Counter("keyfold_notify_ledger_failures_total", "Rounds that the ledger failed.", s.Failures.Load)
	set.Counter("keyfold_notify_dispatched_total", "Hand-overs to the senders that were confirmed.", s.Dispatched.Load)
	set.Counter("keyfold_notify_dispatched_again_total", "Of these, hand-overs of decisions that were found undispatched.", s.Again.Load)
	set.Counter("keyfold_notify_marked_total", "Hand-overs that the ledger knows to be confirmed.", s.Marked.Load)
	set.Counter("keyfold_notify_dispatch_failures_total", "Hand-overs that failed.", s.Refused.Load)
	set.Counter("keyfold_notify_expired_before_dispatch_total", "NOWs that expired before their hand-over.", s.Expired.Load)
	set.Histogram("keyfold_notify_commit_seconds", "Calls of the ledger's commit.", s.CommitTime)
	set.Histogram("keyfold_notify_users_per_commit", "Users whose changes one call of the ledger's commit writes.", s.UsersPerCommit)
	set.Histogram("keyfold_notify_decision_seconds", "From the start of a flush until all its notifications are decided, stored and handed over.", s.FlushTime)
	for i, class := range []string{"urgent", "bulk"} {
		set.Histogram(fmt.Sprintf("keyfold_notify_event_to_dispatch_seconds{class=%q}", class),
			"From an event's timestamp to the confirmed hand-over, of events that are decided NOW as they come.", s.DispatchTime[i])
	}
}

func (s *Stats) init() {
	for o := range s.Decisions.counts {
		s.Decisions.counts[o] = make([]atomic.Int64, len(decisionReasons))
	}
	s.FlushTime, s.CommitTime = metric.NewCalls(), metric.NewCalls()
	s.UsersPerCommit = metric.NewSizes(1, 2, 5, 10, 25, 50, 100, 250, 500)
	for i := range s.DispatchTime {
		s.DispatchTime[i] = metric.NewDelays()
	}
}

// dispatched times a confirmed hand-over.
func (s *Stats) dispatched(d *notify.Dispatch, now engine.Millis) {
	for i, e := range d.Events {
		if d.Records[i].Turn > 0 {
			continue
		}
		class := 1
		if e.Type.Urgent() {
			class = 0
		}
		s.DispatchTime[class].Observe(time.Duration(max(0, now-e.Timestamp)) * time.Millisecond)
	}
}
