package history

import (
	"slices"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/similar"
	"keyfold/proof/notifyoracle"
)

// widen lets through more than a state keeps of marks and of sends.
func (h *history) widen() {
	h.wide = true
	theirs, ours := *h.set.theirs, *h.set.ours
	theirs.Rules, ours.Rules = nil, nil
	theirs.Policy.Limits, theirs.Policy.Topics = nil, nil
	for i := range theirs.Policy.Types {
		t := &theirs.Policy.Types[i]
		t.DuplicateWindow, t.Cooldown = pick(h.rng, []engine.Millis{0, minute}), 0
	}
	theirs.Policy.Score.Now, theirs.Policy.Caps = 0, notify.Caps{notify.MaxCap, notify.MaxCap, notify.MaxCap}
	ours.Policy = theirs.Policy
	h.set = sets{&theirs, &ours}
	h.change()
}

// flood has all that comes wait for a digest: it is more than one message has items.
func (h *history) flood() {
	h.flooded = true
	h.set.theirs.Policy.Score.Now, h.set.theirs.Policy.Score.Later = 2, 0
	h.set.ours.Policy = h.set.theirs.Policy
	for i := range h.set.theirs.Policy.Types {
		h.set.theirs.Policy.Types[i].DuplicateWindow = 0
		h.set.ours.Policy.Types[i].DuplicateWindow = 0
	}
}

// crowd has all that comes wait for a slot: two ids have more than one user can.
func (h *history) crowd() {
	h.set.theirs.Policy.Caps = notify.Caps{2, 2, 2}
	h.set.ours.Policy = h.set.theirs.Policy
	for i := range h.set.theirs.Policy.Types {
		h.set.theirs.Policy.Types[i].DuplicateWindow, h.set.theirs.Policy.Types[i].Capped = 0, true
		h.set.ours.Policy.Types[i] = h.set.theirs.Policy.Types[i]
	}
}

// change draws the user's preferences.
func (h *history) change() {
	g := h.rng
	p := notify.Preferences{}
	if h.wide {
		h.prefs, h.user.Preferences = p, p
		return
	}
	switch g.IntN(4) {
	case 0: // the event's zone, or the settings'
	case 1:
		p.Zone = pick(g, h.places).zone
	default:
		p.Zone = h.place.zone
	}
	if !g.chance(4) {
		p.Quiet = slices.Clone(pick(g, quietHours))
	}
	if g.chance(6) {
		p.Muted = []notify.EventType{pick(g, notify.EventTypes), pick(g, notify.EventTypes)}
	}
	if g.chance(4) {
		p.Channels = h.rng.channels(1)
	}
	if g.chance(3) {
		p.Caps = notify.Caps{g.IntN(4), g.IntN(6), g.IntN(10)}
	}
	p.Attributes = pick(g, h.attributes)
	if h.fresh {
		h.wishFor(&p)
	}
	h.prefs, h.user.Preferences = p, p
}

// quietHours are habits; the last ones meet gaps and repeats of clocks.
var quietHours = []quiet.Hours{
	{{From: 1320, To: 420}},
	{{From: 1320, To: 420}},
	{{From: 0, To: 360}},
	{{From: 780, To: 900}, {From: 1380, To: 390}},
	{{From: 1410, To: 30}},
	{{From: 0, To: 1440, Days: 1<<6 | 1<<7}},
	{{From: 1080, To: 540, Days: 1 << 5}, {From: 540, To: 480, Days: 1 << 6}},
	{{From: 0, To: 719}, {From: 720, To: 1439}},
	{{From: 120, To: 180}},
	{{From: 150, To: 151, Days: 1 << 7}},
	{{From: 60, To: 121}, {From: 180, To: 181}, {From: 0, To: 1}},
	{{From: 1439, To: 1}},
}

// nextTime draws the next instant: often the edge of something, or a millisecond beside.
func (h *history) nextTime() engine.Millis {
	g := h.rng
	if h.wide {
		return h.now + g.span(5*minute)
	}
	if g.chance(2) {
		return h.now + g.span(pick(g, []engine.Millis{hour, 2 * hour, day, 3 * day}))
	}
	edge := h.edge() + engine.Millis(g.IntN(3)) - 1
	if edge < h.now || edge > h.now+4*day {
		return h.now + g.span(hour)
	}
	return edge
}

// edge draws an instant at which something ends.
func (h *history) edge() engine.Millis {
	g := h.rng
	policy := &h.set.theirs.Policy
	switch g.IntN(6) {
	case 0:
		if len(h.waiting) > 0 {
			return pick(g, h.waiting).DueAt
		}
	case 1, 2:
		if len(h.state.Sends) > 0 {
			return pick(g, h.state.Sends) + pick(g, notify.Windows[:])
		}
	case 3:
		if len(h.state.Marks) > 0 {
			m := pick(g, h.state.Marks)
			return m.At + policy.Types[m.Type].DuplicateWindow
		}
	case 4:
		kind := pick(g, notify.EventTypes)
		return h.state.LastSend[kind] + policy.Types[kind].Cooldown
	case 5:
		if len(h.prefs.Quiet) > 0 {
			return h.prefs.Quiet.NextEnd(h.place.zone, h.now)
		}
	}
	return 0
}

// newEvent draws an event of an id, often one like an earlier one.
func (h *history) newEvent(as string) notifyoracle.Event {
	g := h.rng
	m := &h.metadatas[g.IntN(len(h.metadatas))]
	e := &notify.Notification{
		ID: g.uuid(), UserID: as, Type: pick(g, notify.EventTypes), Source: pick(g, []string{"shop", "shop", "fraud"}),
		Hint: notify.Hint(g.IntN(5)), Channels: g.channels(1), DedupeKey: pick(g, dedupeKeys),
	}
	text := g.IntN(len(texts))
	if g.chance(2) {
		e.Type = pick(g, []notify.EventType{notify.Promo, notify.Update})
	}
	if len(h.met) > 0 && g.chance(4) {
		again := pick(g, h.met)
		e.Type, text, m = again.kind, again.text, again.metadata
	}
	if h.flooded {
		e.Type = notify.Promo
	}
	h.met = append(h.met, said{e.Type, text, m})
	e.Title, e.Message, e.Metadata = texts[text][0], texts[text][1], m.theirs
	e.Timestamp = h.now - g.span(2*day)
	if g.chance(10) {
		e.Timestamp = h.now + engine.Millis(g.Int64N(int64(notify.MaxFuture)))
	}
	if g.chance(2) && !h.wide {
		e.ExpiresAt = max(e.Timestamp+1, h.expiry())
	}
	key := printKey{e.Type, text, identityOf(m), e.DedupeKey}
	print, made := h.prints[key]
	if !made {
		print = similar.Of(e.Type.String(), e.Title, e.Message, m.identity, e.DedupeKey)
		h.prints[key] = print
	}
	e.Print = print
	if e.Body = m.body; e.ID[0]%4 == 0 && !h.flooded {
		e.Body = m.large
	}
	if as != h.id {
		e.Person = h.id
	}
	if h.run != nil {
		h.run.Events = append(h.run.Events, e)
	}
	return notifyoracle.Event{Notification: e, Object: m.object}
}

// expiry draws when an event expires.
func (h *history) expiry() engine.Millis {
	g := h.rng
	switch g.IntN(5) {
	case 0:
		return h.now + engine.Millis(g.IntN(3)) - 1
	case 1:
		return h.edge() + engine.Millis(g.IntN(3)) - 1
	}
	return h.now + g.span(3*day)
}
