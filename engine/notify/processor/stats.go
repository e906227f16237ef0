package processor

import (
	"fmt"
	"sync/atomic"
	"time"

	"keyfold/engine/metric"
	"keyfold/engine/notify"
)

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Outcomes   [outcomeCount]atomic.Int64 // deliveries by [Outcome]
	Decisions  [4]atomic.Int64            // records by notify.Outcome
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

	CommitTime *metric.Histogram // of the ledger's commits
}

// Of returns how many deliveries ended with an outcome.
func (s *Stats) Of(o Outcome) int64 { return s.Outcomes[o].Load() }

// Register adds the series to set.
func (s *Stats) Register(set *metric.Set) {
	for o := Decided; o < outcomeCount; o++ {
		set.Counter(fmt.Sprintf("keyfold_notify_handled_total{outcome=%q}", o), "Events and due deferrals, by what one attempt came to.", s.Outcomes[o].Load)
	}
	for o := notify.Now; o <= notify.Never; o++ {
		set.Counter(fmt.Sprintf("keyfold_notify_decisions_total{outcome=%q}", o), "Decisions by outcome.", s.Decisions[o].Load)
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
}

func newCommitTime() *metric.Histogram {
	const ms = time.Millisecond
	return metric.NewHistogram(ms, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, 1000*ms, 5000*ms)
}
