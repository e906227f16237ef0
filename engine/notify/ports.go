package notify

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"keyfold/engine"
)

// ReasonAnotherUser is the reason of [ErrAnotherUser].
const ReasonAnotherUser = "event_id_of_another_user"

// ErrAnotherUser is the permanent error of an event_id that a record of another
// user has.
var ErrAnotherUser = engine.PermanentError(ReasonAnotherUser, errors.New("event_id belongs to another user's event"))

// KnownError is the answer for a change of which an event has a record of the turn,
// or of a later one, already. Nothing of the change was written.
type KnownError struct{ Known []Known }

// Error says it.
func (*KnownError) Error() string { return "decided already" }

// Ledger stores decisions. Implementations pass sink/ledgertest. Answers are
// aligned with questions.
type Ledger interface {
	// Load reads what is stored of users, at a point every later commit builds on.
	Load(ctx context.Context, asks []Ask) ([]Standing, error)
	// Commit writes each change whole or not at all, if the user's version is the
	// one before it, and then the marks. It returns one error per change: nil once it
	// is durable, [engine.ErrConflict], [*KnownError], [engine.ErrUnknown] where it may
	// have happened, or a permanent error. The changes differ in their users. One more
	// error follows those of the changes where the marks are not known to be durable;
	// to write a mark twice changes nothing.
	Commit(ctx context.Context, changes []Change, marks []DispatchMark) []error
	// Find reads keys by decision_id: it tells what became of an unknown commit.
	// Those that are absent are zero.
	Find(ctx context.Context, decisions []uuid.UUID) ([]Known, error)
	// Undispatched reads at most n NOWs decided before an instant that have no
	// [DispatchMark], oldest first. Those without a record, or of an erased user, do not
	// count.
	Undispatched(ctx context.Context, before engine.Millis, n int) ([]Dispatch, error)
	// Dispatches reads the dispatches of keys that are NOW, each once, in the order of the
	// keys, whether they are marked or not. Those of erased users, and those without a
	// record, are left out.
	Dispatches(ctx context.Context, keys []Known) ([]Dispatch, error)
	// Forget erases a user: a [Tombstone], no deferrals, blanked records. After an error
	// some may be left: a further call goes on. To erase a user twice changes nothing.
	Forget(ctx context.Context, user string, at engine.Millis) error
	Deferrals
}

// Deferrals are the events that wait for their next turn.
type Deferrals interface {
	// Claim leases at most about n deferrals that are due, by their time, and with one
	// of a digest those of its user and key that have the same time. Until the lease ends no other Claim returns them.
	// With an error, those that it returns are leased all the same: of the others, one is
	// damaged.
	Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]Due, error)
	// Release gives claimed ones back: they are due again at once.
	Release(ctx context.Context, events []uuid.UUID) error
	// NextDue returns when the next deferral is due, leased ones included; 0: none waits.
	NextDue(ctx context.Context) (engine.Millis, error)
}

// Leases give work to one of several processes that share a ledger.
type Leases interface {
	// Lease gives the work of a name to holder until an instant, and reports whether
	// it has it: the lease of another one must have ended by now. The holder moves its
	// own lease at any time.
	Lease(ctx context.Context, name string, holder uuid.UUID, now, until engine.Millis) (bool, error)
}

// UnreadableError is the error of a Load that was answered, but for some users.
type UnreadableError = engine.Unreadable[string]

// DispatchID is the identity under which senders get a NOW: the digest's, where it is in one.
func DispatchID(event, digest uuid.UUID) uuid.UUID {
	if digest != uuid.Nil {
		return digest
	}
	return event
}

// Ask asks for what is stored of a user.
type Ask struct {
	User      string
	Events    []uuid.UUID // whose keys are wanted
	Reports   []uuid.UUID // events of which it is wanted what was reported of their newest decisions
	Deferrals bool        // the user's deferrals too: a replay decides them itself
	// Stale admits an earlier state of the user, and Known without the keys: what is
	// made of them conflicts, or Commit answers with the keys.
	Stale bool
}

// Standing is what is stored of a user.
type Standing struct {
	State       *State // nil: there is none
	Version     int64  // 0: there is none
	Preferences Preferences
	Responses   *Responses // nil: none are known
	Known       []Known    // aligned with Ask.Events; zero where an event is new
	Reported    []Reported // aligned with Ask.Reports
	Deferred    []Due      // with Ask.Deferrals, by their time
}

// Known is the key of an event with its newest turn.
type Known struct {
	EventID    uuid.UUID
	User       string // of an erased user the [Tombstone]; see [Known.Of]
	DecisionID uuid.UUID
	Turn       int
	Outcome    Outcome // 0: the event is new
	Dispatched bool
	DecidedAt  engine.Millis
	DigestID   uuid.UUID
}

// Change is all that one flush makes of one user.
type Change struct {
	User      string
	Version   int64 // before it; 0: the user is new
	State     *State
	Decided   []Decided // in the order of their records
	Postponed []Postponement
	FollowUps []Due // deferrals of events that are new: follow-ups of NOWs of the change
}

// Decided is a record with its event. A LATER replaces the event's deferral, a
// NEVER deletes it; of a NOW it is deleted when the dispatch is marked.
type Decided struct {
	Record   Record
	Event    *Notification
	Delivery Delivery // as it is read; a decision begins with [StatusOf], whatever a change says
}

// DispatchMark says that the dispatch of a NOW needs no further try.
type DispatchMark struct {
	Event uuid.UUID
	// Expired: the event expired before its dispatch and was not sent. A delivery that
	// is PENDING becomes DELIVERY_FAILED with [ErrorExpired], unless the dispatch was
	// marked before. Otherwise the dispatch was confirmed.
	Expired bool
}

// Postponement moves a deferral's time.
type Postponement struct {
	EventID uuid.UUID
	DueAt   engine.Millis
}

// Due is a deferral whose time has come.
type Due struct {
	Event     *Notification
	Turn      Turn // the next one
	DueAt     engine.Millis
	DigestKey string // "": it is of no digest
	Slot      engine.Millis
}

// Dispatch is the message to the senders for one NOW, or for the items of a digest that
// one message has room for.
type Dispatch struct {
	ID      uuid.UUID // event_id, or digest_id: senders drop one they know
	Records []Record  // one, or one per item of the digest
	Events  []*Notification
}

// Dispatcher hands dispatches to the senders. It returns one error per dispatch:
// nil once the hand-over is confirmed.
type Dispatcher interface {
	Send(ctx context.Context, dispatches []Dispatch) []error
}

// Sets returns the set in force. A flush reads it once.
type Sets interface{ Current() *Set }

// Shadows hears of decisions that were made a second time, by [Set.Shadow].
type Shadows interface {
	// Observe gets stored records, and what the candidate makes of the same events, aligned
	// with them.
	Observe(candidate *Set, was []Decided, would []Record)
}

// Scores reads the taste terms of events under the policy of a set. The answer is
// aligned with events, and comes within the port's own timeout.
type Scores interface {
	Score(ctx context.Context, policy *Policy, events []*Notification) []Score
}
