package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
)

// document returns a set whose two rules have these priorities.
func document(first, second int) []byte {
	const rule = `{"rule_id":"6b657966-6f6c-4d00-8000-00000000000%d","name":"rule %d","priority":%d,"version":"1.0.0",
		"conditions":{"field":"event_type","operator":"eq","value":"PROMO"},"action":{"outcome":"NOW","reason_code":"RULE"}}`
	return fmt.Appendf(nil, `{"version":"1","rules":[%s,%s]}`, fmt.Sprintf(rule, 1, 1, first), fmt.Sprintf(rule, 2, 2, second))
}

func publish(t *testing.T, l *Ledger, document []byte, ifActive int64) int64 {
	t.Helper()
	version, err := l.Publish(ctx, Publication{Document: document, By: "a", Note: "b", IfActive: ifActive})
	must.OK(t, err)
	return version
}

// rulesOf returns the working copy: priorities by rule, and when each rule changed.
func rulesOf(t *testing.T, l *Ledger) (text string) {
	t.Helper()
	must.OK(t, l.pool.QueryRow(ctx, `SELECT coalesce(string_agg(name || '=' || priority, ' ' ORDER BY name), '') FROM notify_rules`).Scan(&text))
	return text
}

// A set comes into force as it was written, under the next number; a publication that
// expects another one leaves everything as it is. Two rules exchange their priorities, and
// one that is gone leaves the working copy.
//
// Promise(notify-worker/faulty-set)
func TestPublish(t *testing.T) {
	l := openNew(t)
	if active, err := l.Active(ctx); err != nil || active != (Active{}) {
		t.Errorf("%+v %v", active, err)
	}
	if v := publish(t, l, document(1, 2), 0); v != 1 || rulesOf(t, l) != "rule 1=1 rule 2=2" {
		t.Errorf("%d: %s", v, rulesOf(t, l))
	}
	if v := publish(t, l, document(2, 1), 1); v != 2 || rulesOf(t, l) != "rule 1=2 rule 2=1" {
		t.Errorf("%d: %s", v, rulesOf(t, l))
	}
	for _, expected := range []int64{0, 1, 3} {
		_, err := l.Publish(ctx, Publication{Document: document(5, 6), IfActive: expected})
		if other, ok := errors.AsType[*NotActiveError](err); !ok || other.Active != 2 || !strings.Contains(err.Error(), "--if-active 2") {
			t.Errorf("expected %d: %v", expected, err)
		}
	}
	one := []byte(`{"version":"1","rules":[]}`)
	if v := publish(t, l, one, 2); v != 3 || rulesOf(t, l) != "" {
		t.Errorf("%d: %s", v, rulesOf(t, l))
	}
	if active, err := l.Active(ctx); err != nil || active != (Active{Set: 3}) {
		t.Errorf("%+v %v", active, err)
	}
	first, err := l.RuleSet(ctx, 1)
	if err != nil || string(first.Document) != string(document(1, 2)) || first.PublishedBy != "a" || first.Note != "b" || first.PublishedAt == 0 {
		t.Errorf("%+v %v", first, err)
	}
	if all, err := l.RuleSets(ctx, 2); err != nil || len(all) != 2 || all[0].Version != 3 || all[1].Version != 2 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := l.RuleSet(ctx, 4); !errors.Is(err, ErrNoSet) {
		t.Error(err)
	}
	// What is no set of rules is refused whole.
	for _, text := range []string{`{`, string(document(7, 7)), `{"rules":[{"rule_id":"x"}]}`} {
		if _, err := l.Publish(ctx, Publication{Document: []byte(text), IfActive: 3}); engine.KindOf(err) != engine.Permanent {
			t.Errorf("%s: %v", text, err)
		}
	}
	if all, err := l.RuleSets(ctx, 10); err != nil || len(all) != 3 {
		t.Errorf("%+v %v", all, err)
	}
}

// Of those that publish at once in place of the same set, one does.
//
// Promise(notify-worker/faulty-set)
func TestPublishSideBySide(t *testing.T) {
	l := openNew(t)
	var published atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			_, err := l.Publish(ctx, Publication{Document: document(2*i, 2*i+1)})
			if _, other := errors.AsType[*NotActiveError](err); err == nil {
				published.Add(1)
			} else if !other {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sets, err := l.RuleSets(ctx, 20); err != nil || published.Load() != 1 || len(sets) != 1 {
		t.Errorf("%d were published: %d %v", published.Load(), len(sets), err)
	}
}

// Even the owner does not change a published set by mistake.
//
// Promise(notify-worker/immutable-sets): A published set cannot be changed in the database, by its
// tables' owner either; one changed past that is not used.
func TestPublishedSetsAreImmutable(t *testing.T) {
	l := openNew(t)
	publish(t, l, document(1, 2), 0)
	for _, change := range []string{
		"UPDATE notify_rule_sets SET note = 'x'", "UPDATE notify_rule_sets SET document = '{}' WHERE set_version = 1",
		"DELETE FROM notify_rule_sets", "TRUNCATE notify_rule_sets CASCADE",
	} {
		if _, err := l.pool.Exec(ctx, change); err == nil || !strings.Contains(err.Error(), "a published set of rules is not changed") {
			t.Errorf("%s: %v", change, err)
		}
	}
	if s, err := l.RuleSet(ctx, 1); err != nil || string(s.Document) != string(document(1, 2)) || s.Note != "b" {
		t.Errorf("%+v %v", s, err)
	}
	// One that was changed all the same is not used.
	run(t, l, "ALTER TABLE notify_rule_sets DISABLE TRIGGER ALL")
	run(t, l, "UPDATE notify_rule_sets SET document = '{}'")
	if _, err := l.RuleSet(ctx, 1); engine.ReasonOf(err) != ReasonCorrupt {
		t.Error(err)
	}
}

// Tables of the version before get what rules need.
func TestRulesComeToOlderTables(t *testing.T) {
	server := pgtest.Shared(t)
	l := openAt(t, server.URL(server.Database(t, "")))
	must.OK(t, l.setUp(ctx, 5))
	if err := l.Check(ctx); engine.ReasonOf(err) != ReasonNotSetUp {
		t.Error(err)
	}
	must.OK(t, l.Setup(ctx))
	must.OK(t, l.Check(ctx))
	publish(t, l, document(1, 2), 0)
}

// A candidate is there until it ends; what is known of it is counted, sampled within
// bounds, kept at its end and deleted by the next one. It has no part in what is in force.
//
// Promise(notify-worker/shadow)
func TestShadowTables(t *testing.T) {
	l := openNew(t)
	if _, err := l.SetShadow(ctx, document(1, 2)); engine.ReasonOf(err) != ReasonNotSetUp {
		t.Error(err)
	}
	publish(t, l, document(1, 2), 0)
	one, err := l.SetShadow(ctx, document(2, 1))
	must.OK(t, err)
	if active, err := l.Active(ctx); err != nil || active != (Active{1, one}) || rulesOf(t, l) != "rule 1=1 rule 2=2" {
		t.Errorf("%+v %v", active, err)
	}
	if text, err := l.Shadow(ctx, one); err != nil || string(text) != string(document(2, 1)) {
		t.Errorf("%s %v", text, err)
	}
	pairs := []ShadowPair{{Was: notify.Never, Would: notify.Now, Differ: 1, Decisions: 2}, {Was: notify.Now, Would: notify.Now, Decisions: 4}}
	sample := ShadowSample{Set: "1", Was: notify.Never, WasReasons: []string{"A"}, Would: notify.Now, WouldReasons: []string{"B", `c"d`}, DecidedAt: start}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 20 {
				samples := make([]ShadowSample, 50)
				for i := range samples {
					samples[i] = sample
					samples[i].Decision = uuid.New()
				}
				if err := l.NoteShadow(ctx, one, pairs, samples); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	publish(t, l, document(3, 4), 1)
	must.OK(t, l.EndShadow(ctx))
	if active, err := l.Active(ctx); err != nil || active != (Active{Set: 2}) {
		t.Errorf("%+v %v", active, err)
	}
	if _, err := l.Shadow(ctx, one); !errors.Is(err, ErrNoSet) {
		t.Error(err)
	}
	r, err := l.ShadowReport(ctx, 5000)
	must.OK(t, err)
	total := []ShadowPair{{Was: notify.Now, Would: notify.Now, Decisions: 320}, {Was: notify.Never, Would: notify.Now, Differ: 80, Decisions: 160}}
	if r.Version != one || r.On || !slices.Equal(r.Pairs, total) || len(r.Samples) != mostSamples {
		t.Errorf("%d %t %+v, %d samples", r.Version, r.On, r.Pairs, len(r.Samples))
	}
	if got := r.Samples[0]; got.Decision == uuid.Nil || !slices.Equal(got.WouldReasons, sample.WouldReasons) || got.DecidedAt != start || got.Would != notify.Now {
		t.Errorf("%+v", got)
	}
	two, err := l.SetShadow(ctx, document(2, 1))
	must.OK(t, err)
	if r, err := l.ShadowReport(ctx, 10); err != nil || r.Version != two || two <= one || !r.On || len(r.Pairs)+len(r.Samples) != 0 {
		t.Errorf("%+v %v", r, err)
	}
}
