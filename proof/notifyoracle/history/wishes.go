package history

import (
	"slices"
	"strconv"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// Draw says what histories are drawn from.
type Draw struct {
	// New says which histories have limits, channels that are awake, topics, follow-ups,
	// cancellation, replacement and what users open too.
	New Share
}

// Share is a share of the histories.
type Share uint8

// The shares. Half are those with every second pair of sets.
const (
	Half Share = iota
	None
	All
)

// has reports whether a block of histories belongs to the share.
func (s Share) has(block uint64) bool { return s == All || s == Half && block%2 == 1 }

// limitKeys are the keys of limits: a policy has two at most.
var limitKeys = [][][]string{
	{{"metadata.order_id"}, {"source", "metadata.amount"}},
	{{"metadata.order_id"}, {"source", "metadata.amount"}},
	{{"metadata.order_id"}, {"user_id", "source"}},
}

// wish adds what users wish for to a policy.
func (w *World) wish(p *notify.Policy) {
	g := w.rng
	keys := pick(g, limitKeys)
	for i := range g.IntN(5) {
		p.Limits = append(p.Limits, w.newLimit(i, keys))
	}
	for range g.IntN(5) {
		p.Topics = append(p.Topics, pick(g, topics))
	}
	for _, c := range notify.Channels {
		if g.chance(4) {
			p.Awake |= notify.SetOf([]notify.Channel{c})
		}
	}
	for _, kind := range notify.EventTypes {
		p.Types[kind].OthersLater, p.Types[kind].CappedToDigest = g.chance(2), g.chance(4)
		p.Types[kind].OpenRate = pick(g, []float64{0, .1, .5, g.Float64()})
	}
	if g.chance(2) {
		p.Digests = map[string]notify.DigestPolicy{"": {Show: g.IntN(4)}, "all": {Show: 1 + g.IntN(3)}, "PROMO": {Show: 2}}
	}
	p.Score.Response = pick(g, []float64{0, .2, 1, g.Float64()})
	p.Prepare()
}

func (w *World) newLimit(i int, keys [][]string) notify.Limit {
	g := w.rng
	l := notify.Limit{
		Name: "limit " + strconv.Itoa(i), Most: 1 + g.IntN(3),
		Within: pick(g, []engine.Millis{second, 10 * minute, hour, 6 * hour, day, 3 * day}),
	}
	if g.chance(2) {
		l.Of.Types = pick(g, [][]notify.EventType{{notify.Promo, notify.Update}, {notify.Promo}, {notify.Alert, notify.Update, notify.Security}})
	}
	if g.chance(3) {
		l.Of.Sources = []string{pick(g, []string{"shop", "fraud"})}
	}
	if g.chance(2) {
		l.Of.Channels = g.channels(1)
	}
	if g.chance(3) {
		l.Key = pick(g, keys)
	}
	return l
}

// topics of policies.
var topics = []notify.Topic{
	{Name: "offers", Of: notify.Selector{Types: []notify.EventType{notify.Promo}}},
	{Name: "orders", Of: notify.Selector{Types: []notify.EventType{notify.Update, notify.Reminder}, Sources: []string{"shop"}}},
	{Name: "alarms", Of: notify.Selector{Types: []notify.EventType{notify.Alert, notify.Update}}, Locked: true},
	{Name: "fraud", Of: notify.Selector{Sources: []string{"fraud"}}},
	{Name: "all"},
}

// wishFor draws what a user wishes for.
func (h *history) wishFor(p *notify.Preferences) {
	g := h.rng
	until := func(n int) engine.Millis {
		if !g.chance(n) {
			return 0
		}
		return h.now + g.span(2*day)
	}
	p.MutedUntil, p.SnoozedUntil, p.Paused = until(16), until(5), g.chance(30)
	if g.chance(3) {
		p.Digests = pick(g, [][]quiet.Clock{{600}, {480, 1200}, {150}})
	}
	p.Topics = map[string]notify.TopicPreference{}
	for _, t := range topics {
		choice := notify.TopicPreference{MutedUntil: until(20), SnoozedUntil: until(10)}
		kinds := pick(g, [][]notify.Choice{{0}, {0, notify.ChoiceDigest}, {notify.ChoiceDigest}, {0, 0, notify.ChoiceOff, notify.ChoiceDigest}, {0, 0, 0, 0, notify.ChoiceOn}})
		for _, c := range notify.Channels {
			choice.Channels[c] = pick(g, kinds)
		}
		if choice != (notify.TopicPreference{}) {
			p.Topics[t.Name] = choice
		}
	}
}

// newChain draws a chain of channels for a rule's NOW, and the rule's own channels. None is
// there twice.
func (w *World) newChain() (steps []any, own []string) {
	g := w.rng
	names := []string{}
	for _, c := range g.channels(len(notify.Channels)) {
		names = append(names, c.String())
	}
	own, names = names[:1+g.IntN(2)], names[1+1:]
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(own, name) })
	for _, name := range names {
		step := map[string]any{"after": pick(g, []string{"1m", "15m", "1h", "1h30m", "24h"}), "channels": []string{name}}
		if unless := pick(g, []string{"", "read", "delivered", "never"}); unless != "" {
			step["unless"] = unless
		}
		steps = append(steps, step)
	}
	return steps, own
}

// newHabit draws what is known of how the user responds.
func (w *World) newHabit() (h notify.Habit) {
	g := w.rng
	if g.chance(4) {
		return h
	}
	h.Delivered = 40 * g.Float64()
	h.Opened = h.Delivered * g.Float64()
	h.Hour = g.IntN(25) - 1
	return h
}
