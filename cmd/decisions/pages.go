package decisions

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/dashboard"
	"keyfold/service/notify/api"
	"keyfold/service/notify/users"
	"keyfold/sink/ledger"
)

// PageLedger is what pages read.
type PageLedger interface {
	users.Reader
	api.Recorder
	Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error)
	Counts(ctx context.Context, in ledger.Span) ([]ledger.Count, error)
	CountDeferrals(ctx context.Context, now engine.Millis, most int64) ([]ledger.DeferralCount, error)
	Unreported(ctx context.Context, before engine.Millis) (int64, error)
}

// Most of a user's decisions that pages show.
const decisionsShown = 10

// unreportedAfter is how long a sender may take to report a delivery, as the workers' gauge has it.
const unreportedAfter = time.Hour

// Pages are where the pages of notifications are read. A ledger is opened where a page needs it.
type Pages struct {
	Command string // that has the commands, such as "keyfold notify"
	Open    func(ctx context.Context) (PageLedger, error)
}

// Notifications returns what the pages show.
func (p *Pages) Notifications() *dashboard.Notifications {
	return &dashboard.Notifications{
		Program: p.Command, Counts: p.counts, Waiting: p.waiting, Unreported: p.unreported, Explained: p.explained, User: p.User,
	}
}

func (p *Pages) counts(ctx context.Context, from, to time.Time, most int64) ([]dashboard.DecisionCount, error) {
	l, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := l.Counts(ctx, ledger.Span{From: engine.MillisOf(from), To: engine.MillisOf(to), Most: most})
	all := make([]dashboard.DecisionCount, len(counted))
	for i, c := range counted {
		all[i] = dashboard.DecisionCount{Outcome: c.Outcome, Reason: c.Reason, N: c.N}
	}
	return all, tooMany(err)
}

func tooMany(err error) error {
	if errors.Is(err, ledger.ErrTooMany) {
		return dashboard.ErrTooMany
	}
	return err
}

// waiting counts as `deferrals stats` does.
func (p *Pages) waiting(ctx context.Context, most int64) (all []dashboard.WaitingCount, err error) {
	l, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := l.CountDeferrals(ctx, engine.Now(), most)
	for _, c := range counted {
		one := dashboard.WaitingCount{Type: c.Type.String(), Due: c.Due, Claimed: c.Claimed, Minute: c.Minute, Hour: c.Hour, Day: c.Day, Beyond: c.Later}
		if c.Oldest != 0 {
			one.Oldest = c.Oldest.Time()
		}
		all = append(all, one)
	}
	return all, tooMany(err)
}

func (p *Pages) unreported(ctx context.Context) (n, most int64, err error) {
	l, err := p.Open(ctx)
	if err != nil {
		return 0, 0, err
	}
	n, err = l.Unreported(ctx, engine.Now()-engine.Millis(unreportedAfter.Milliseconds()))
	return n, ledger.MaxUnreported, err
}

// explained explains as `event show` does, without texts also without what the notification says.
func (p *Pages) explained(ctx context.Context, id uuid.UUID, texts bool) ([]dashboard.Turn, error) {
	l, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	d, err := l.Decision(ctx, id)
	if err != nil {
		return nil, err
	}
	if d != nil {
		id = d.Record.EventID
	}
	found, err := api.Turns(ctx, l, id)
	if err != nil {
		return nil, err
	}
	if !texts {
		found = api.Untold(found)
	}
	var turns []dashboard.Turn
	for i, e := range api.ExplainAll(found) {
		one := dashboard.Turn{Record: e.Record, Delivery: e.Delivery, Explanation: e.Explanation}
		if event := found[i].Event; event != nil && !e.Erased {
			one.Title, one.Message = event.Title, event.Message
		}
		turns = append(turns, one)
	}
	return turns, nil
}

// User returns what `user show` prints; nil: nothing is stored.
func (p *Pages) User(ctx context.Context, user string) (*dashboard.Notified, error) {
	l, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := users.Show(ctx, l, user, decisionsShown)
	if err != nil || shown == nil {
		return nil, err
	}
	n := &dashboard.Notified{User: shown.UserID}
	for _, w := range shown.Waiting {
		n.Waiting = append(n.Waiting, dashboard.Deferred{Due: w.DueAt, Type: w.Type, EventID: w.EventID, Turn: w.Turn})
	}
	for i := range shown.Decisions {
		r := &shown.Decisions[i]
		n.Decided = append(n.Decided, dashboard.Decided{
			At: r.DecidedAt.Time(), Outcome: r.Outcome.String(), Type: r.Type.String(), Reasons: strings.Join(r.Reasons, ", "), EventID: r.EventID.String(),
		})
	}
	return n, nil
}
