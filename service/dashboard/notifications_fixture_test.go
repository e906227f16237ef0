package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/service/notify/ruleset"
)

var (
	orderID  = uuid.MustParse("6f6c4d00-8000-4000-8000-000000000001")
	firstID  = uuid.MustParse("0198c8f0-7a00-7000-8000-000000000001")
	secondID = uuid.MustParse("0198c8f0-7a00-7000-8000-000000000002")
)

// office is a ledger of notifications, with sets of rules, of which a test says what it has.
type office struct {
	mu       sync.Mutex
	counted  map[time.Time]int // how often an hour was counted
	counts   func(from time.Time, most int64) ([]DecisionCount, error)
	waiting  []WaitingCount
	turns    []notify.Decided
	user     *Notified
	fault    error // of all
	sets     []ruleset.Listed
	document []byte
	shadow   ruleset.Shadow
}

// newPost is an office that has decided.
func newPost() *office {
	at := engine.MillisOf(noon.Add(-time.Hour))
	record := notify.Record{
		DecisionID: firstID, EventID: orderID, UserID: "17", Seq: 1, Type: notify.Update, Outcome: notify.Later, Reasons: []string{notify.ReasonCap5M},
		RuleVersion: "42", DecidedAt: at, DeferUntil: at + 180_000, Channels: []notify.Channel{notify.Push},
	}
	record.Facts.Near = []string{`shipping at once: asks for source in ["orders"], found "carts"`}
	record.Facts.Frees[0] = at + 180_000
	again := record
	again.DecisionID, again.Seq, again.Turn, again.Outcome, again.Reasons, again.DecidedAt, again.DeferUntil = secondID, 2, 1, notify.Now, []string{notify.ReasonScoreHigh}, at+180_000, 0
	again.Scored, again.Score, again.Facts = true, 0.71, notify.Facts{}
	p := &office{counted: map[time.Time]int{}, document: rule.Default()}
	p.counts = func(time.Time, int64) ([]DecisionCount, error) {
		return []DecisionCount{{notify.Now, notify.ReasonScoreHigh, 1200}, {notify.Later, notify.ReasonCap5M, 30}, {notify.Never, notify.ReasonDuplicate, 7}}, nil
	}
	p.waiting = []WaitingCount{{Type: "UPDATE", Due: 3, Minute: 2, Oldest: noon.Add(-2 * time.Minute)}, {Type: "PROMO", Day: 12, Oldest: noon.Add(time.Hour)}}
	p.turns = []notify.Decided{{Record: record}, {Record: again, Delivery: notify.Delivery{Status: notify.Delivered, Channel: notify.Push, At: at + 181_000}}}
	p.user = &Notified{
		User:    "17",
		Decided: []Decided{{At: noon, Outcome: "LATER", Type: "UPDATE", Reasons: notify.ReasonCap5M, EventID: orderID.String()}},
		Waiting: []Deferred{{Due: "2026-11-23T13:00:00Z", Type: "PROMO", EventID: firstID.String(), Turn: 1}},
	}
	for number := int64(42); number > 40; number-- {
		one := ruleset.ListedOf(number, p.document, []byte{1, 2, 3, 4, 5, 6, 7, 8}, noon.Add(-time.Duration(43-number)*time.Hour), "ops", "fewer promotions")
		one.InForce = number == 42
		p.sets = append(p.sets, one)
	}
	p.shadow = ruleset.Shadow{
		On: true, Candidate: 3, Decisions: 1204, Differ: 31, Pairs: []ruleset.ShadowPair{{Was: "NOW", Would: "LATER", Differ: 31, Decisions: 1204}},
		Samples: []ruleset.ShadowSample{{Decision: firstID.String(), Set: "42", At: "2026-11-23T11:05:10Z", Was: "NOW", WasReasons: []string{"SCORE_HIGH"}, Would: "LATER", WouldReasons: []string{"PROMO_CAP"}}},
	}
	return p
}

func (p *office) notifications() *Notifications {
	return &Notifications{
		Program: "keyfold notify",
		Counts: func(_ context.Context, from, _ time.Time, most int64) ([]DecisionCount, error) {
			p.mu.Lock()
			p.counted[from]++
			p.mu.Unlock()
			if p.fault != nil {
				return nil, p.fault
			}
			return p.counts(from, most)
		},
		Waiting:    func(context.Context, int64) ([]WaitingCount, error) { return p.waiting, p.fault },
		Unreported: func(context.Context) (int64, int64, error) { return 31, 10_000, p.fault },
		User: func(_ context.Context, user string) (*Notified, error) {
			if user != "17" && user != "anon-77" {
				return nil, p.fault
			}
			return p.user, p.fault
		},
		Explained: func(_ context.Context, id uuid.UUID, texts bool) (all []Turn, err error) {
			if id != orderID && id != firstID && id != secondID {
				return nil, p.fault
			}
			for i := range p.turns {
				one := Turn{Record: p.turns[i].Record, Delivery: p.turns[i].Delivery, Explanation: notify.Explain(&p.turns[i])}
				if texts {
					one.Title, one.Message = "Order 1001 shipped", "It is on its way"
				}
				all = append(all, one)
			}
			return all, p.fault
		},
	}
}

func (p *office) rules() *Rules {
	return &Rules{
		Program: "keyfold notify",
		Sets:    func(context.Context, int) (*ruleset.List, error) { return &ruleset.List{Sets: p.sets}, p.fault },
		Set: func(_ context.Context, number int64) (*ruleset.Shown, error) {
			for _, s := range p.sets {
				if s.Version == number {
					return ruleset.ShownOf(s, p.document), p.fault
				}
			}
			return nil, p.fault
		},
		Diff: func(_ context.Context, a, b int64) (*ruleset.Diff, error) {
			if a < 41 || b > 42 || p.fault != nil {
				return nil, p.fault
			}
			if a == b {
				return ruleset.DiffOf(a, b, p.document, p.document)
			}
			return ruleset.DiffOf(a, b, []byte(`{"policy":{"caps":[1,2,3]},"rules":[{"rule_id":"r1","name":"promo cap","priority":3}]}`),
				[]byte(`{"policy":{"caps":[1,2,4]},"rules":[{"rule_id":"r1","name":"promo cap","priority":4}]}`))
		},
		Shadow: func(context.Context, int) (*ruleset.Shadow, error) { return &p.shadow, p.fault },
	}
}

var errLedgerAway = errors.New("PostgreSQL does not listen at its address")
