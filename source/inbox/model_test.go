package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// model is what a file must hold after any sequence of calls.
type model struct {
	order []string         // ids by arrival
	state map[string]State // by id
	kept  map[string]bool  // by id: the source keeps the body
	dead  map[string]int   // by malformed body: times
	open  []profile.Delivery
}

// Any sequence of adding, settling and crashing leaves what the model says.
//
// Promise(lite/killed)
func TestInboxEqualsItsModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(dir, "model")
		must.OK(t, err)
		config := Config{RetryDelay: MaxRetryDelay} // no retries: Retry is dead
		path := filepath.Join(dir, "inbox.db")
		b := start(t, path, config, nil)
		defer func() { b.stop() }()
		m := &model{state: map[string]State{}, kept: map[string]bool{}, dead: map[string]int{}}
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(t *rapid.T) { m.add(t, b) },
			"settle": func(t *rapid.T) { m.settle(t, b) },
			"crash": func(t *rapid.T) {
				_ = b.wait(context.Background(), func() bool { return b.marks.volatile == 0 })
				b.kill()
				b = start(t, path, config, nil)
				m.recover(t, b)
			},
			"check": func(t *rapid.T) { m.check(t, b) },
		})
		m.check(t, b)
	})
}

func (m *model) add(t *rapid.T, b *bench) {
	var arrivals []Arrival
	var want []Receipt
	var fresh []string
	for range rapid.IntRange(1, 12).Draw(t, "arrivals") {
		if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
			body := fmt.Sprintf("garbage %d", rapid.IntRange(0, 2).Draw(t, "body"))
			arrivals, want = append(arrivals, malformed(body)), append(want, ReceiptDead)
			m.dead[body]++
			continue
		}
		a := event(rapid.IntRange(1, 3).Draw(t, "user"), rapid.IntRange(0, 40).Draw(t, "event"))
		a.Kept = rapid.Bool().Draw(t, "kept")
		arrivals = append(arrivals, a)
		id := a.Event.MessageID
		if _, ok := m.state[id]; ok {
			want = append(want, ReceiptDuplicate)
			continue
		}
		m.state[id], m.kept[id] = StatePending, a.Kept
		m.order, fresh, want = append(m.order, id), append(fresh, id), append(want, ReceiptNew)
	}
	got, deliveries, err := b.Add(context.Background(), arrivals)
	if err != nil || !slices.Equal(got, want) || !slices.Equal(ids(deliveries), fresh) {
		t.Fatalf("receipts %v, want %v; %v", got, want, err)
	}
	m.open = append(m.open, deliveries...)
}

func (m *model) settle(t *rapid.T, b *bench) {
	if len(m.open) == 0 {
		return
	}
	for range rapid.IntRange(1, len(m.open)).Draw(t, "verdicts") {
		i := rapid.IntRange(0, len(m.open)-1).Draw(t, "delivery")
		d := m.open[i]
		m.open = slices.Delete(m.open, i, i+1)
		v := engine.Verdict{Outcome: rapid.SampledFrom([]engine.Outcome{
			engine.Folded, engine.Duplicate, engine.ProductMissing, engine.UserErased, engine.Dead, engine.Retry, engine.Unsettled,
		}).Draw(t, "outcome")}
		state, ok := stateOf(v.Outcome)
		if v.Outcome == engine.Retry {
			state, ok = StateDead, true
		}
		if ok {
			m.state[d.Event.MessageID] = state
		}
		d.Settler.Settle(v)
	}
}

func (m *model) recover(t *rapid.T, b *bench) {
	var want []string
	for _, id := range m.order {
		if m.state[id] == StatePending {
			want = append(want, id)
		}
	}
	m.open = recovered(t, b)
	if !slices.Equal(ids(m.open), want) {
		t.Fatalf("recovered %v, want %v", ids(m.open), want)
	}
}

func (m *model) check(t *rapid.T, b *bench) {
	_ = b.wait(context.Background(), func() bool { return b.marks.volatile == 0 })
	if b.open != len(m.open) {
		t.Fatalf("%d in flight, want %d", b.open, len(m.open))
	}
	got := map[string]State{}
	rows, err := b.read.Query(`SELECT message_id, state FROM inbox`)
	must.OK(t, err)
	for rows.Next() {
		var id string
		var state State
		must.OK(t, rows.Scan(&id, &state))
		got[id] = state
	}
	must.OK(t, errors.Join(rows.Err(), rows.Close()))
	if !maps.Equal(got, m.state) {
		t.Fatalf("states %v, want %v", got, m.state)
	}
	bodies := int64(0)
	for id, state := range m.state {
		if state == StatePending || !m.kept[id] {
			bodies++
		}
	}
	if got := b.bodies(t); got != bodies {
		t.Fatalf("%d bodies, want %d", got, bodies)
	}
	dead, times := 0, map[string]int{}
	for _, l := range b.letters(t) {
		if l.MessageID == "" {
			times[string(l.Body)] = l.Times
			continue
		}
		if dead++; l.Times != 1 || m.state[l.MessageID] != StateDead {
			t.Fatalf("letter %+v of an event that is %s", l, m.state[l.MessageID])
		}
	}
	if !maps.Equal(times, m.dead) {
		t.Fatalf("malformed %v, want %v", times, m.dead)
	}
	for _, s := range m.state {
		if s == StateDead {
			dead--
		}
	}
	if dead != 0 {
		t.Fatalf("%d dead letters too many", dead)
	}
}
