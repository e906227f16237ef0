package engine

import "sync/atomic"

// Outcome is what became of one event.
type Outcome uint8

const (
	// Folded: the event is in the stored profile.
	Folded Outcome = iota + 1
	// Duplicate: it had been folded before, or stands twice in its batch.
	Duplicate
	// ProductMissing: a store read confirmed that its product is unknown.
	ProductMissing
	// UserErased: its user was erased, whatever the event's time.
	UserErased
	// Dead: it can never be folded; Verdict.Reason and Verdict.Err say why.
	Dead
	// Retry: its own work failed for now; Verdict.Err says how.
	Retry
	// Park: what its own work needs is away (Verdict.Err says what). It waits
	// as long as a retry may, with no attempt used, and comes again.
	Park
	// Unsettled: nothing was done with it and no attempt was used (a configuration
	// fault, or the worker is stopping). It stays unsettled at its source.
	Unsettled
	// Decided: the decisions on it are stored. It is an outcome of notifications;
	// folding has the others.
	Decided
)

var outcomeNames = [...]string{"", "folded", "duplicate", "product_missing", "user_erased", "dead", "retry", "park", "hold", "decided"}

// String returns the outcome's name in metrics and reports.
func (o Outcome) String() string {
	if int(o) >= len(outcomeNames) {
		return ""
	}
	return outcomeNames[o]
}

// Settlement is what a source does with the message of a delivery that has its
// verdict.
type Settlement uint8

const (
	// Leave: the message stays unsettled at its source.
	Leave Settlement = iota
	// Ack: the message is done with.
	Ack
	// DeadLetter: the message goes to the dead letters.
	DeadLetter
	// RetryLater: the message comes again, and one attempt is used.
	RetryLater
	// ParkLater: the message comes again, and no attempt is used.
	ParkLater
)

// Settlement returns what a source does with a message of this outcome.
func (o Outcome) Settlement() Settlement {
	switch o {
	case Folded, Duplicate, ProductMissing, UserErased, Decided:
		return Ack
	case Dead:
		return DeadLetter
	case Retry:
		return RetryLater
	case Park:
		return ParkLater
	default:
		return Leave
	}
}

// Verdict is an outcome and, where there is one, its cause.
type Verdict struct {
	Outcome Outcome
	Reason  string // stable, snake_case; set for Dead
	Err     error  // set for Dead, Retry, Park and Unsettled
	// AbsentAt is the store's time at which the event was last known not to be
	// folded, for events that come again; 0 where that was not looked up. It is
	// the FirstSeen of a copy that takes the delivery's place.
	AbsentAt Millis
}

// Settler takes the verdict on one delivery back to where it came from. Settle
// is called exactly once per delivery, from any goroutine, and must not block
// on the broker or the store.
type Settler interface {
	Settle(Verdict)
}

// Once returns the settler of one delivery: the first verdict goes to s, any
// other is ignored. A delivery that comes again has one of its own, so that a late
// verdict on the earlier one does not settle it.
func Once(s Settler) Settler { return &once{settler: s} }

type once struct {
	settler Settler
	settled atomic.Bool
}

func (o *once) Settle(v Verdict) {
	if o.settled.CompareAndSwap(false, true) {
		o.settler.Settle(v)
	}
}
