package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/testserver/must"
)

// ruleList is a list of rules by type.
type ruleList []struct {
	of     EventType
	action Action
}

func (l ruleList) Match(in *Input, spent []uuid.UUID) *Action {
	for i := range l {
		if l[i].of == in.Event.Type && !slices.Contains(spent, l[i].action.Rule) {
			return &l[i].action
		}
	}
	return nil
}

func drawRules(t *rapid.T) (l ruleList) {
	l = make(ruleList, rapid.IntRange(0, 4).Draw(t, "rules"))
	for i := range l {
		l[i].of = rapid.SampledFrom(EventTypes).Draw(t, "of")
		a := Action{Rule: idOf(9000 + i), Name: fmt.Sprint("rule ", i), Reason: fmt.Sprint("RULE_", i)}
		a.Outcome = rapid.SampledFrom([]Outcome{Now, Later, Later, Never}).Draw(t, "says")
		switch a.Outcome {
		case Now:
			a.Bypass = rapid.SampledFrom([]Bypass{Forced, {Caps: true}, {Quiet: true}, {Cooldown: true}}).Draw(t, "bypass")
		case Later:
			a.Strategy = Strategy(rapid.IntRange(1, strategyCount-1).Draw(t, "strategy"))
		}
		l[i].action = a
	}
	return l
}

func drawHours(t *rapid.T) quiet.Hours {
	return rapid.SampledFrom([]quiet.Hours{
		nil, night,
		{{From: 13 * 60, To: 14 * 60}},
		{{From: 9 * 60, To: 17*60 + 30, Days: 1<<1 | 1<<2}, {From: 23 * 60, To: 23*60 + 5}},
		{{From: 0, To: 6 * 60}, {From: 6 * 60, To: 9*60 + 15}},
	}).Draw(t, "quiet")
}

// drawSet draws a set with low caps and short cooldowns, so that much is held.
func drawSet(t *rapid.T) *Set {
	set := newScene().set
	set.Rules = drawRules(t)
	for i := range set.Policy.Caps {
		set.Policy.Caps[i] = rapid.IntRange(1, 3+3*i).Draw(t, "cap")
	}
	for _, eventType := range EventTypes {
		p := &set.Policy.Types[eventType]
		p.Cooldown = rapid.SampledFrom([]engine.Millis{0, 0, minute, 2 * hour}).Draw(t, "cooldown")
		p.NowAtLimit = rapid.Bool().Draw(t, "now at limit")
		p.DuplicateWindow = rapid.SampledFrom([]engine.Millis{0, minute, day, 2 * day}).Draw(t, "window")
	}
	set.Policy.Score.Now = rapid.SampledFrom([]float64{0, .5, .7}).Draw(t, "threshold")
	set.Policy.Score.Taste = rapid.Bool().Draw(t, "taste takes part")
	set.Policy.Score.Later = rapid.SampledFrom([]float64{.3, .5}).Draw(t, "later threshold")
	if rapid.Bool().Draw(t, "wishes") {
		drawWishes(t, set)
	}
	return set
}

// drawWishes draws limits, channels that are awake, topics and chains of channels.
func drawWishes(t *rapid.T, set *Set) {
	p := &set.Policy
	for n := range rapid.IntRange(0, 3).Draw(t, "limits") {
		p.Limits = append(p.Limits, Limit{
			Name: fmt.Sprint("limit ", n), Most: rapid.IntRange(1, 3).Draw(t, "most"),
			Within: rapid.SampledFrom([]engine.Millis{minute, hour, day, 2 * day}).Draw(t, "within"),
			Of: Selector{
				Types:    rapid.SampledFrom([][]EventType{nil, {Promo}, {Update, Message}, {Security}}).Draw(t, "types"),
				Sources:  rapid.SampledFrom([][]string{nil, {"s"}, {"r", "q"}}).Draw(t, "sources"),
				Channels: rapid.SampledFrom([][]Channel{nil, nil, {Push}, {Email, InApp}}).Draw(t, "of channels"),
			},
			Key: rapid.SampledFrom([][]string{nil, nil, {"metadata.order_id"}}).Draw(t, "key"),
		})
	}
	p.Prepare()
	p.Awake = rapid.SampledFrom([]ChannelSet{0, SetOf([]Channel{InApp}), SetOf([]Channel{InApp, Email})}).Draw(t, "awake")
	p.Topics = rapid.SampledFrom([][]Topic{nil, {{Name: "s", Of: Selector{Types: []EventType{Security, System}}, Locked: true}, {Name: "t"}}}).Draw(t, "topics")
	for _, eventType := range EventTypes {
		p.Types[eventType].OthersLater = rapid.Bool().Draw(t, "others later")
		p.Types[eventType].CappedToDigest = rapid.IntRange(0, 3).Draw(t, "capped to digest") == 0
	}
	rules := set.Rules.(ruleList)
	for i := range rules {
		if a := &rules[i].action; a.Outcome != Never && rapid.Bool().Draw(t, "escalates") {
			a.Escalate = []Escalation{
				{After: minute, Channels: []Channel{Email}, Unless: UnlessDelivered}, {After: hour, Channels: []Channel{SMS}, Unless: UnlessRead},
			}
		}
	}
}

// drawTopics draws what users wish of topics, mutes, snooze and digests.
func drawTopics(t *rapid.T, p *Preferences) {
	p.Paused = rapid.IntRange(0, 9).Draw(t, "paused") == 0
	p.MutedUntil = rapid.SampledFrom([]engine.Millis{0, 0, testNow + 10*hour}).Draw(t, "muted until")
	p.SnoozedUntil = rapid.SampledFrom([]engine.Millis{0, 0, testNow + 12*hour}).Draw(t, "snoozed until")
	p.Digests = rapid.SampledFrom([][]quiet.Clock{nil, {20 * 60}}).Draw(t, "digests")
	choice := func() Choice { return Choice(rapid.IntRange(0, choiceCount-1).Draw(t, "choice")) }
	if rapid.Bool().Draw(t, "has topics") {
		p.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Push: choice(), Email: choice(), InApp: choice()}}}
	}
}

func drawPreferences(t *rapid.T) Preferences {
	p := Preferences{Quiet: drawHours(t)}
	if rapid.Bool().Draw(t, "has zone") {
		p.Zone = zoneNamed(rapid.SampledFrom([]string{"Europe/Berlin", "Australia/Lord_Howe", "America/New_York"}).Draw(t, "zone"))
	}
	p.Muted = rapid.SampledFrom([][]EventType{nil, nil, {Promo}}).Draw(t, "muted")
	p.Channels = rapid.SampledFrom([][]Channel{nil, nil, {Push}}).Draw(t, "channels")
	p.Caps[1] = rapid.IntRange(0, 2).Draw(t, "own cap")
	if rapid.Bool().Draw(t, "wishes") {
		drawTopics(t, &p)
	}
	return p
}

// drawEvent draws the event of a number.
func drawEvent(t *rapid.T, n int, now engine.Millis) *Notification {
	e := &Notification{
		ID: idOf(n), UserID: "u", Type: rapid.SampledFrom(EventTypes).Draw(t, "type"), Source: rapid.SampledFrom([]string{"s", "r"}).Draw(t, "source"),
		Metadata: rapid.SampledFrom([]Metadata{nil, order("1"), order("2")}).Draw(t, "order"), Body: []byte("{}"),
		Title: fmt.Sprint("Order ", rapid.IntRange(1, 12).Draw(t, "title"), " of the many orders that you have made with us this year is",
			rapid.SampledFrom([]string{"", "", " now"}).Draw(t, "word"), " shipped and on its way to your home in the town, together with all the gifts"),
		Hint:      Hint(rapid.IntRange(0, hintCount-1).Draw(t, "hint")),
		Channels:  rapid.SampledFrom([][]Channel{{Push, Email}, {InApp, Push}, {Email}}).Draw(t, "channel"),
		Timestamp: now - rapid.SampledFrom([]engine.Millis{0, 0, 0, hour}).Draw(t, "age"),
	}
	if rapid.Bool().Draw(t, "expires") {
		e.ExpiresAt = e.Timestamp + rapid.SampledFrom([]engine.Millis{1, 10 * minute, 3 * hour, day}).Draw(t, "life")
	}
	return e
}

// history is one user's events, decided in the order of their time as a replay
// does: deferrals that are due come before the next event.
type history struct {
	set      *Set
	prefs    Preferences
	state    *State
	score    Score
	events   map[uuid.UUID]*Notification
	waiting  []Due
	records  []Record
	perEvent map[uuid.UUID][]Record

	reported      Reported // of all events
	scored, moved int      // decisions by score, and those of them that another taste changes
}

// decideDue decides all deferrals that are due until an instant.
func (h *history) decideDue(t *rapid.T, until engine.Millis) {
	for {
		slices.SortStableFunc(h.waiting, func(a, b Due) int {
			return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), CompareEvents(a.Event, b.Event))
		})
		if len(h.waiting) == 0 || h.waiting[0].DueAt > until {
			return
		}
		first := h.waiting[0]
		if first.DigestKey == "" {
			h.waiting = h.waiting[1:]
			h.decide(t, first.Event, first.Turn, first.DueAt)
			continue
		}
		var group, rest []Due
		for _, d := range h.waiting {
			if d.DigestKey == first.DigestKey && d.Slot == first.Slot {
				group = append(group, d)
			} else {
				rest = append(rest, d)
			}
		}
		h.waiting = rest
		before := h.state.Clone()
		records := DecideDigest(h.set, &h.prefs, h.state, group, nil, first.DueAt)
		if !reflect.DeepEqual(before, h.state) {
			t.Fatal("DecideDigest changed the state")
		}
		for i := range records {
			h.take(t, &records[i])
		}
	}
}

func (h *history) decide(t *rapid.T, e *Notification, turn Turn, now engine.Millis) {
	e.Print = h.set.Policy.Print(e)
	if e.Follows != nil {
		turn.Reported = h.reported
	}
	before := h.state.Clone()
	s := scene{set: h.set, prefs: h.prefs, state: h.state, event: e, turn: turn, now: max(now, h.state.DecidedAt), score: h.score}
	r := s.decide()
	if !reflect.DeepEqual(before, h.state) {
		t.Fatal("Decide changed the state")
	}
	if again := Decide(h.set, &r.Facts.Preferences, h.state, e, turn, r.Facts.Taste, r.DecidedAt); !reflect.DeepEqual(again, r) {
		t.Fatalf("from the record itself it is decided as %+v\nnot as %+v", again, r)
	}
	checkLeast(t, &s, &r)
	h.checkTaste(t, s, &r)
	h.take(t, &r)
}

// take folds a record, checks the state against its codec, and keeps the deferral.
func (h *history) take(t *rapid.T, r *Record) {
	e := h.events[r.EventID]
	h.state.Fold(r)
	b := h.state.Append(nil)
	if stored, err := ReadState(b); err != nil || !sameState(stored, h.state) {
		t.Fatalf("%v\nstored %+v\nread   %+v", err, h.state, stored)
	}
	if len(Explain(&Decided{Record: *r, Event: e}).Lines) < 2 || len(Explain(&Decided{Record: *r}).Lines) < 2 {
		t.Fatal("not explained")
	}
	turn := Turn{Number: r.Turn, Spent: r.Spent}
	if r.Outcome == Later {
		turn.Number++
	}
	if r.Outcome == Later || r.Outcome == Postponed {
		if r.DeferUntil <= r.DecidedAt {
			t.Fatalf("%s until %d at %d", r.Outcome, r.DeferUntil, r.DecidedAt)
		}
		h.waiting = append(h.waiting, Due{Event: e, Turn: turn, DueAt: r.DeferUntil, DigestKey: r.DigestKey, Slot: r.Slot})
	}
	for i := range r.Facts.FollowUps {
		due, err := e.FollowUp(&r.Facts.FollowUps[i])
		if err != nil || h.events[due.Event.ID] != nil || due.DueAt < r.DecidedAt {
			t.Fatalf("%v: %+v", err, due)
		}
		h.events[due.Event.ID] = due.Event
		h.waiting = append(h.waiting, due)
	}
	if r.Outcome != Postponed {
		h.records = append(h.records, *r)
		h.perEvent[r.EventID] = append(h.perEvent[r.EventID], *r)
	}
}

func sameState(a, b *State) bool {
	return a.DecidedAt == b.DecidedAt && a.Erased == b.Erased && a.LastSend == b.LastSend && a.LastDigest == b.LastDigest &&
		slices.Equal(a.Sends, b.Sends) && slices.Equal(a.Marks, b.Marks) && slices.Equal(a.Reserved, b.Reserved) && slices.Equal(a.Sent, b.Sent)
}

func drawHistory(t *rapid.T) *history {
	h := &history{
		set: drawSet(t), prefs: drawPreferences(t), state: &State{}, events: map[uuid.UUID]*Notification{}, perEvent: map[uuid.UUID][]Record{},
	}
	h.reported = Reported(rapid.IntRange(0, 3).Draw(t, "reported"))
	h.score = rapid.SampledFrom([]Score{{}, {Cosine: .3, Known: true}}).Draw(t, "taste")
	now := testNow + engine.Millis(rapid.IntRange(0, 23).Draw(t, "start"))*hour
	for n := range rapid.IntRange(1, 25).Draw(t, "events") {
		now += rapid.SampledFrom([]engine.Millis{0, 1, second, minute, 5 * minute, 20 * minute, 7 * hour}).Draw(t, "step")
		e := drawEvent(t, n+1, now)
		h.events[e.ID] = e
		h.decideDue(t, now)
		h.decide(t, e, Turn{}, now)
	}
	h.decideDue(t, 1<<60)
	return h
}

// Promise(notify-worker/taste)
func TestRandomHistories(t *testing.T) {
	// No history erases its user, cancels or replaces.
	met := map[string]int{ReasonUserErased: 1, ReasonCancelled: 1, ReasonReplaced: 1, ReasonReplaces: 1}
	missing := func() (reasons []string) {
		for _, reason := range Reasons {
			if met[reason] == 0 {
				reasons = append(reasons, reason)
			}
		}
		return reasons
	}
	for round := 0; round < 10 && len(missing()) > 0; round++ { // one round nearly always has all
		rapid.Check(t, func(t *rapid.T) {
			h := drawHistory(t)
			h.checkCaps(t)
			h.checkLimits(t)
			h.checkRecords(t)
			h.checkTurns(t)
			h.checkFold(t)
			for _, r := range h.records {
				for _, reason := range r.Reasons {
					met[reason]++
				}
			}
		})
	}
	if reasons := missing(); len(reasons) > 0 {
		t.Errorf("no history has %v: the draw is lopsided", reasons)
	}
}

// checkCaps counts sends over every window that ends with a NOW that caps hold.
func (h *history) checkCaps(t *rapid.T) {
	var sends []engine.Millis
	digests := map[uuid.UUID]bool{}
	for _, r := range h.records {
		if r.Outcome != Now || r.Facts.Step > 0 {
			continue
		}
		if r.DigestID == uuid.Nil || !digests[r.DigestID] {
			sends = append(sends, r.DecidedAt)
		}
		digests[r.DigestID] = true
		if r.DigestID != uuid.Nil || r.Facts.Forced || r.Reasons[0] == ReasonDeferLimit || !h.set.Policy.Types[r.Type].Capped {
			continue
		}
		for i, window := range Windows {
			limit := cmp.Or(h.prefs.Caps[i], h.set.Policy.Caps[i])
			count := 0
			for _, at := range sends {
				if at > r.DecidedAt-window {
					count++
				}
			}
			if count > limit {
				t.Fatalf("%d sends in %d ms, the cap is %d", count, window, limit)
			}
		}
	}
}

// checkLimits counts sends over the span of each limit that ends with a NOW that it bounds.
func (h *history) checkLimits(t *rapid.T) {
	bypasses := func(rule uuid.UUID) bool {
		for _, known := range h.set.Rules.(ruleList) {
			if known.action.Rule == rule && known.action.Outcome == Now {
				return known.action.Bypass.Caps
			}
		}
		return false
	}
	for i := range h.set.Policy.Limits {
		l := &h.set.Policy.Limits[i]
		type message struct {
			at engine.Millis
			id uuid.UUID
		}
		var sends []message
		for _, r := range h.records {
			e := h.events[r.EventID]
			if r.Outcome != Now || r.Facts.Step > 0 && len(l.Of.Channels) == 0 || len(l.Of.Types) > 0 && !slices.Contains(l.Of.Types, r.Type) ||
				len(l.Of.Sources) > 0 && !slices.Contains(l.Of.Sources, r.Source) || len(l.Of.Channels) > 0 && SetOf(l.Of.Channels)&SetOf(r.Channels) == 0 {
				continue
			}
			key := e.Metadata.Get("order_id").Text
			if len(l.Key) > 0 && key == "" {
				continue
			}
			m := message{r.DecidedAt, r.EventID}
			if r.DigestID != uuid.Nil {
				m.id = r.DigestID
			}
			if !slices.Contains(sends, m) {
				sends = append(sends, m)
			}
			if len(l.Of.Types) == 0 && !h.set.Policy.Types[r.Type].Capped || r.DigestID != uuid.Nil || bypasses(r.RuleID) || r.Reasons[0] == ReasonDeferLimit || len(l.Key) > 0 {
				continue
			}
			count := 0
			for _, m := range sends {
				if m.at > r.DecidedAt-l.Within {
					count++
				}
			}
			if count > l.Most {
				t.Fatalf("%s %v of %s by %v: %d sends in %d ms, the limit %+v", r.Outcome, r.Reasons, r.Type, r.Channels, count, l.Within, l)
			}
		}
	}
}

func (h *history) checkRecords(t *rapid.T) {
	last := engine.Millis(0)
	for _, r := range h.records {
		e := h.events[r.EventID]
		if r.DecidedAt < last {
			t.Fatal("time runs backwards")
		}
		last = r.DecidedAt
		if r.Outcome != Now {
			continue
		}
		if e.ExpiresAt != 0 && r.DecidedAt >= e.ExpiresAt {
			t.Fatalf("sent %d ms after its expiry", r.DecidedAt-e.ExpiresAt)
		}
		keeps := h.set.Policy.Types[r.Type].Quiet && !r.Facts.Forced && !h.bypasses(r.RuleID)
		if keeps && SetOf(r.Channels)&^h.set.Policy.Awake == 0 {
			continue
		}
		if keeps && r.Facts.Preferences.Quiet.Contains(r.Facts.Preferences.Zone, r.DecidedAt) {
			t.Fatalf("%s %v in quiet hours", r.Outcome, r.Reasons)
		}
		if r.DuplicateOf == r.EventID {
			t.Fatal("it is a duplicate of itself")
		}
	}
}

// bypasses reports whether a rule's NOW is not held by quiet hours.
func (h *history) bypasses(rule uuid.UUID) bool {
	for _, known := range h.set.Rules.(ruleList) {
		if known.action.Rule == rule && known.action.Outcome == Now {
			return known.action.Bypass.Quiet
		}
	}
	return false
}

// checkTurns finds for each event the turns 0 to at most 2, without a gap, and one
// end.
func (h *history) checkTurns(t *rapid.T) {
	if len(h.perEvent) != len(h.events) {
		t.Fatalf("%d of %d events have records", len(h.perEvent), len(h.events))
	}
	for id, records := range h.perEvent {
		if len(records) > MaxTurn+1 {
			t.Fatalf("%s has %d records", id, len(records))
		}
		for i, r := range records {
			if r.Turn != i || (r.Outcome == Later) != (i < len(records)-1) {
				t.Fatalf("%s: record %d of %d is turn %d, %s", id, i, len(records), r.Turn, r.Outcome)
			}
		}
	}
}

// checkFold makes the state of the records as they are stored.
func (h *history) checkFold(t *rapid.T) {
	folded := &State{}
	for _, r := range h.records {
		b, err := json.Marshal(r)
		must.OK(t, err)
		var stored Record
		must.OK(t, json.Unmarshal(b, &stored))
		folded.Fold(&stored)
	}
	if !sameState(folded, h.state) {
		t.Fatalf("folded %+v\nstored %+v", folded, h.state)
	}
}

// blockers tells what holds an event at an instant, from a record and its scene.
type blockers struct {
	s      *scene
	r      *Record
	bypass Bypass
	rule   engine.Millis // the instant of a rule's LATER
}

func (b *blockers) at(at engine.Millis) bool {
	p, f := &b.s.set.Policy.Types[b.s.event.Type], &b.r.Facts
	if at < b.rule {
		return true
	}
	instants := b.instants()
	for i, window := range Windows {
		for _, end := range append(slices.Clone(instants), at) {
			count := 0
			for _, one := range instants {
				if one > end-window && one <= end {
					count++
				}
			}
			// The windows that the instant is in.
			if end >= at && end < at+window && p.Capped && !b.bypass.Caps && count >= f.Caps[i] {
				return true
			}
		}
	}
	last := b.s.state.LastSend[b.s.event.Type]
	if !b.bypass.Cooldown && last != 0 && at < last+p.Cooldown {
		return true
	}
	for _, o := range b.others() {
		if !b.bypass.Cooldown && o.Type == b.s.event.Type && max(at-o.At, o.At-at) < p.Cooldown {
			return true
		}
	}
	return p.Quiet && !b.bypass.Quiet && f.Preferences.Quiet.Contains(f.Preferences.Zone, at)
}

// others are the reservations of other events that count for it.
func (b *blockers) others() (all []Reservation) {
	for _, o := range b.s.state.Reserved {
		if o.EventID != b.s.event.ID && (o.Type.Urgent() || !b.s.event.Type.Urgent()) {
			all = append(all, o)
		}
	}
	return all
}

func (b *blockers) instants() []engine.Millis {
	all := slices.Clone(b.s.state.Sends)
	for _, o := range b.others() {
		all = append(all, o.At)
	}
	return all
}

// checkLeast finds the least instant at which nothing holds the event by trying
// each at which something ends, and compares it with that of a record.
func checkLeast(t *rapid.T, s *scene, r *Record) {
	if len(s.set.Policy.Limits) > 0 || len(s.set.Policy.Topics) > 0 || s.set.Policy.Awake != 0 || s.event.Follows != nil || s.prefs.SnoozedUntil != 0 || s.set.Policy.Types[s.event.Type].CappedToDigest {
		return // the oracle's
	}
	expires := r.Reasons[0] == ReasonExpiresFirst
	if r.Turn == MaxTurn || r.Scored || r.Facts.Strategy == DigestWindow || r.Outcome != Later && !expires {
		return
	}
	b := blockers{s: s, r: r}
	candidates := []engine.Millis{s.now}
	for _, rule := range s.set.Rules.(ruleList) {
		switch {
		case rule.action.Rule != r.RuleID:
		case rule.action.Outcome == Now:
			b.bypass = rule.action.Bypass
		default:
			b.rule = r.Facts.RuleUntil
			candidates = append(candidates, b.rule)
		}
	}
	for _, window := range Windows {
		for _, one := range b.instants() {
			candidates = append(candidates, one+window)
		}
	}
	for _, o := range b.others() {
		candidates = append(candidates, o.At+s.set.Policy.Types[s.event.Type].Cooldown)
	}
	candidates = append(candidates, s.state.LastSend[s.event.Type]+s.set.Policy.Types[s.event.Type].Cooldown)
	zone, hours := r.Facts.Preferences.Zone, r.Facts.Preferences.Quiet
	for _, c := range candidates {
		candidates = append(candidates, hours.End(zone, max(s.now, c)))
	}
	least := engine.Millis(1 << 60)
	for _, c := range candidates {
		if c >= s.now && c < least && !b.at(c) {
			least = c
		}
	}
	if least == s.now || !b.at(least-1) {
		t.Fatalf("nothing holds the event a millisecond before %d", least)
	}
	keeps := s.set.Policy.Types[s.event.Type].Quiet && !b.bypass.Quiet
	b.bypass.Quiet = true
	quietEnds := keeps && hours.Contains(zone, least-1)
	// Both end at once: the spread follows where quiet hours moved the event last, which the oracle knows.
	both := quietEnds && b.at(least-1)
	quietEnds = quietEnds && (!both || r.DeferUntil > least)
	b.bypass.Quiet = !keeps
	morning := least == b.rule && (r.Facts.Strategy == NextMorning || r.Facts.Strategy == NextQuietEnd)
	spread := engine.Millis(0)
	if quietEnds || morning {
		room := engine.Millis(600_000)
		for room > 0 && keeps && hours.Contains(zone, least+room) {
			room = room/minute*minute - 1 // the days of these tests begin at full minutes
		}
		spread = engine.Millis(xxhash.Sum64(s.event.ID[:]) % uint64(room+1))
		if s.event.ExpiresAt != 0 {
			spread = max(0, min(spread, s.event.ExpiresAt-1-least))
		}
	}
	aside := spread > 0 && b.at(least+spread) // a reservation moves it on
	switch {
	case expires && !aside && least < s.event.ExpiresAt:
		t.Fatalf("expires at %d, but nothing holds it at %d", s.event.ExpiresAt, least)
	case expires:
	case aside && (r.DeferUntil < least+spread || b.at(r.DeferUntil)):
		t.Fatalf("until %d, where something holds it", r.DeferUntil)
	case !aside && r.DeferUntil != least+spread:
		t.Fatalf("until %d, expected %d and a spread of %d", r.DeferUntil, least, spread)
	}
}

// evenID is an event without a spread.
var evenID = func() uuid.UUID {
	for n := 1; ; n++ {
		if id := idOf(n); xxhash.Sum64(id[:])%600_001 == 0 {
			return id
		}
	}
}()

// A higher cap never makes one decision later.
func TestAHigherCapIsNeverLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scene{set: drawSet(t), prefs: drawPreferences(t), state: &State{}, now: testNow}
		s.set.Policy.Score.Now = 0 // the score would send what no cap holds to a digest
		s.event = drawEvent(t, 1, testNow)
		s.event.ID = evenID
		s.turn.Number = rapid.IntRange(0, 2).Draw(t, "turn")
		s.print()
		sends := rapid.SliceOfN(rapid.IntRange(0, int(day)), 0, 30).Draw(t, "sends")
		slices.Sort(sends)
		for _, ago := range slices.Backward(sends) {
			s.sent(-engine.Millis(ago))
		}
		low := s.decide()
		window := rapid.IntRange(0, 2).Draw(t, "window")
		s.set.Policy.Caps[window] += rapid.IntRange(1, 5).Draw(t, "more")
		high := s.decide()
		if goes(&high) > goes(&low) {
			t.Fatalf("%s %v until %d became %s %v until %d", low.Outcome, low.Reasons, low.DeferUntil, high.Outcome, high.Reasons, high.DeferUntil)
		}
	})
}

// goes returns when the event of a record goes out or is decided again.
func goes(r *Record) engine.Millis {
	switch r.Outcome {
	case Now:
		return r.DecidedAt
	case Never:
		return 1 << 60
	default:
		return r.DeferUntil
	}
}
