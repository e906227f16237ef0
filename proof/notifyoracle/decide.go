package notifyoracle

import (
	"math"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// turn is one decision in the making.
type turn struct {
	set      *Set
	user     *User
	event    Event
	policy   notify.TypePolicy
	prefs    notify.Preferences
	zone     *zone
	state    *State
	asked    Turn
	now      engine.Millis
	item     bool  // of a digest
	rule     *Rule // the one that matched
	wish     wish
	on       []notify.Channel // those that the user has on
	inDigest []notify.Channel // those that the user wants in digests
	allowed  []notify.Channel // on; inDigest where none is
	slots    []Slot           // those in its way
	waits    []string         // the reasons that are collected
	decision Decision
}

// Turn is what a decision is told beside the event.
type Turn struct {
	Number   int
	Spent    []uuid.UUID
	Score    notify.Score
	Reported notify.Reported // of the steps before a follow-up
	Takes    *notify.Place   // of what the event replaces
}

// Decide says what must be decided of an event, and keeps it.
func (u *User) Decide(set *Set, e Event, asked Turn, now engine.Millis) Decision {
	t := u.begin(set, e, asked, now)
	if !t.ended() {
		t.decide()
		t.expiresFirst()
	}
	return t.end()
}

func (u *User) begin(set *Set, e Event, asked Turn, now engine.Millis) *turn {
	t := &turn{set: set, user: u, event: e, asked: asked, policy: set.Policy.Types[e.Type], prefs: u.Preferences, state: u.State()}
	t.wish = wishOf(&set.Policy, &t.prefs, e.Type, e.Source)
	t.now = max(now, t.state.DecidedAt) // time never runs backwards
	t.zone = u.zoneOf(set, e)
	caps := set.Policy.Caps
	for i := range caps {
		if t.prefs.Caps[i] > 0 {
			caps[i] = t.prefs.Caps[i]
		}
	}
	t.decision = Decision{
		EventID: e.ID, Type: e.Type, Print: e.Print, Turn: asked.Number, Version: set.Version,
		DecidedAt: t.now, Horizon: horizon(&set.Policy), Spent: slices.Clone(asked.Spent), Caps: caps, Zone: t.zone.location.String(),
		Topic: t.wish.topic, Reported: asked.Reported,
	}
	t.decision.Send = t.send(0, nil)
	for i, w := range notify.Windows {
		t.decision.Counts[i] = t.state.count(w, t.now)
	}
	return t
}

// zoneOf returns the user's zone: of the preferences, else of the metadata, else of the
// settings.
func (u *User) zoneOf(set *Set, e Event) *zone {
	if z := u.Preferences.Zone; z != nil {
		return u.oracle.zone(z.Name())
	}
	if name, ok := e.Object["timezone"].(string); ok {
		if z := u.oracle.zone(name); z != nil {
			return z
		}
	}
	return u.oracle.zone(set.Zone)
}

// send is what limits ask of the event.
func (t *turn) send(at engine.Millis, channels []notify.Channel) Send {
	return sendOf(t.set, t.event, at, channels)
}

// horizon is 24 h, or the longest cooldown, duplicate window or span of a limit.
func horizon(p *notify.Policy) engine.Millis {
	h := engine.Millis(24 * 60 * 60 * 1000)
	for _, t := range p.Types {
		h = max(h, t.Cooldown, t.DuplicateWindow)
	}
	for _, l := range p.Limits {
		h = max(h, l.Within)
	}
	return h
}

// end completes the decision and keeps it. Only a LATER by a rule spends the rule.
func (t *turn) end() Decision {
	d := &t.decision
	d.Send.At = t.now
	if t.follow(); d.Outcome == notify.Later && t.rule.says(notify.Later) {
		d.Spent = append(d.Spent, t.rule.ID)
	}
	if d.Outcome != notify.Postponed {
		t.user.Past = append(t.user.Past, *d)
	}
	return *d
}

// ended runs stages 1 to 5 and reports whether one of them has ended the decision.
func (t *turn) ended() bool {
	e := t.event
	switch reason := t.muted(); {
	case t.user.Erased:
		return t.never(notify.ReasonUserErased)
	case e.ExpiresAt != 0 && t.now >= e.ExpiresAt:
		return t.never(notify.ReasonExpired)
	case reason != "":
		return t.never(reason)
	case !t.choose(e.Channels):
		return t.never(notify.ReasonNoChannel)
	case e.Follows != nil:
		if t.wasRead() {
			return true
		}
	case t.duplicate():
		return true
	}
	return t.ruledOut()
}

// ruledOut is stage 5. For items a rule's NOW or LATER does not count, for follow-ups a
// LATER does not, nor a rule's channels.
func (t *turn) ruledOut() bool {
	t.rule = t.matchRule()
	if t.rule != nil && !t.rule.says(notify.Never) && (t.item || t.event.Follows != nil && t.rule.says(notify.Later)) {
		t.rule = nil
	}
	if t.rule == nil {
		return false
	}
	t.decision.RuleID = t.rule.ID
	switch {
	case t.rule.says(notify.Never):
		return t.never(t.rule.Action.Reason)
	case t.rule.Action.Channels != nil && t.event.Follows == nil && !t.choose(t.rule.channels()):
		return t.never(notify.ReasonNoChannel)
	}
	return false
}

// never ends the decision: the reason comes first, then those that were collected.
func (t *turn) never(reason string) bool {
	t.decision.Outcome, t.decision.Reasons = notify.Never, append([]string{reason}, t.waits...)
	return true
}

// duplicate is stages 3 and 4: the newest mark counts.
func (t *turn) duplicate() bool {
	var marks []Mark
	for _, m := range slices.Backward(t.state.Marks) {
		if m.EventID != t.event.ID && m.Type == t.event.Type && m.DecidedAt > t.now-t.policy.DuplicateWindow &&
			(!t.policy.ByKeyOnly || m.Print.SameKey(t.event.Print)) {
			marks = append(marks, m)
		}
	}
	if t.policy.DuplicateWindow == 0 {
		return false
	}
	for _, m := range marks {
		if t.event.Print.Same(m.Print) {
			t.decision.DuplicateOf = m.EventID
			return t.never(notify.ReasonDuplicate)
		}
	}
	for _, m := range marks {
		if measure, near := t.event.Print.Near(m.Print); near && t.policy.Near && !m.Old {
			t.decision.DuplicateOf, t.decision.Measure = m.EventID, measure
			return t.never(notify.ReasonNearDuplicate)
		}
	}
	return false
}

// sendOn ends the decision with NOW.
func (t *turn) sendOn(channels []notify.Channel, reasons ...string) {
	d := &t.decision
	d.Outcome, d.Reasons, d.Channels, d.Held = notify.Now, reasons, channels, t.heldBy(channels)
	d.Send.Channels = channels
}

// blocker is what can hold an event; free returns the least instant from at on at which
// it does not.
type blocker struct {
	reason string
	spread bool // events that it held are spread after it
	slot   bool // it has slots: caps, cooldowns and limits
	free   func(at engine.Millis) engine.Millis
}

// blockers are what applies to the event beside its channels, in the order of the stages 6
// to 8, whether it holds the event now or not.
func (t *turn) blockers(w *waiter) (all []blocker) {
	if t.ruleWaits() && t.rule.Action.Strategy != "digest_window" {
		until := t.ruleUntil()
		spread := slices.Contains([]string{"next_morning", "next_quiet_end", "likely_hour"}, t.rule.Action.Strategy)
		all = append(all, blocker{t.rule.Action.Reason, spread, false, func(at engine.Millis) engine.Millis { return max(at, until) }})
	}
	if t.event.Follows != nil {
		return all // caps, cooldown and limits of all channels do not hold it
	}
	if t.policy.Capped && !t.rule.bypasses("caps") {
		taken := instants(t.state.Sends, t.slots)
		for i, reason := range []string{notify.ReasonCap5M, notify.ReasonCap1H, notify.ReasonCap24H} {
			all = append(all, blocker{reason, false, true, func(at engine.Millis) engine.Millis {
				return roomFrom(taken, t.decision.Caps[i], notify.Windows[i], at)
			}})
		}
	}
	for i := range w.bounds {
		if b := &w.bounds[i]; w.limits && len(b.Of.Channels) == 0 {
			all = append(all, blocker{notify.ReasonLimit, false, true, b.roomFrom})
		}
	}
	if t.policy.Cooldown > 0 && !t.rule.bypasses("cooldown") {
		all = append(all, blocker{notify.ReasonCooldown, false, true, func(at engine.Millis) engine.Millis {
			return t.pauseFrom(t.slots, t.event.Type, at)
		}})
	}
	return all
}

// stages are the reasons of stages 7 to 9 in their order; the rule's comes before them.
var stages = []string{
	notify.ReasonCap5M, notify.ReasonCap1H, notify.ReasonCap24H, notify.ReasonLimit, notify.ReasonCooldown,
	notify.ReasonSnoozed, notify.ReasonQuietHours,
}

// collect asks what holds the event now, and returns all that could.
func (t *turn) collect() (*waiter, []blocker) {
	d := &t.decision
	w := t.waiter()
	d.Until, d.Waiting, t.waits = map[string]engine.Millis{}, len(t.slots), nil
	blockers := t.blockers(w)
	asked := slices.Clone(blockers)
	if len(t.freeAt(w, t.now)) == 0 {
		for _, c := range w.channels {
			asked = append(asked, t.holds(w, c)...)
		}
	}
	for _, b := range asked {
		if free := b.free(t.now); free > t.now {
			d.Until[b.reason] = max(d.Until[b.reason], free)
		}
	}
	if t.ruleWaits() { // until another time, so that it always holds
		t.waits = append(t.waits, t.rule.Action.Reason)
	}
	t.waits = append(t.waits, t.heldStages()...)
	if t.wholeDigest() && (!t.rule.says(notify.Now) || len(t.waits) > 0) {
		t.waits = []string{notify.ReasonTopicDigest} // nothing else counts
	}
	t.seeLimits(w)
	return w, blockers
}

// seeLimits keeps what limits have shown.
func (t *turn) seeLimits(w *waiter) {
	t.decision.Limits = nil
	for _, b := range w.bounds {
		if !b.names(w.channels) {
			continue
		}
		seen := LimitSeen{Name: b.Name, Count: within(b.sends, b.Within, t.now)}
		if free := b.roomFrom(t.now); free > t.now {
			seen.Frees = free
		}
		t.decision.Limits = append(t.decision.Limits, seen)
	}
}

// wholeDigest reports whether the user wants the event in digests only, and it has not waited
// as often as it may.
func (t *turn) wholeDigest() bool {
	return len(t.on) == 0 && t.decision.Turn < notify.MaxTurn
}

// forDigest reports whether what holds the event makes it wait for a digest.
func (t *turn) forDigest() bool {
	if t.ruleWaits() {
		return t.rule.Action.Strategy == "digest_window"
	}
	return t.policy.CappedToDigest && slices.ContainsFunc(stages[:5], t.held)
}

// held reports whether a reason is collected.
func (t *turn) held(reason string) bool { return t.decision.Until[reason] != 0 }

// decide is stages 6 to 11.
func (t *turn) decide() {
	d := &t.decision
	own := t.state.slotOf(t.event.ID)
	if d.Turn == 0 {
		own = nil // it comes
	}
	if own == nil || own.At > t.now {
		t.seeOthers() // whose own time has come heeds sends alone
	}
	w, blockers := t.collect()
	if own != nil && len(t.waits) > 0 {
		if t.moves(own, w, blockers) {
			return
		}
		if t.ruleWaits() || len(t.heldStages()) > 0 {
			t.seeOthers()
			w, blockers = t.collect()
		}
	}
	toDigest := t.forDigest() || slices.Contains(t.waits, notify.ReasonTopicDigest)
	switch {
	case len(t.waits) == 0 && t.rule.says(notify.Now):
		t.sendOn(t.freeAt(w, t.now), t.reasonOfNow())
		d.Forced = true
	case t.asked.Takes != nil:
		t.takePlace(w)
		return
	case len(t.waits) > 0:
		d.Outcome, d.Reasons = notify.Later, t.waits
	case t.event.Follows != nil:
		t.sendOn(t.freeAt(w, t.now), t.event.Follows.Reason)
	default:
		t.decideByScore(w)
		toDigest = true
	}
	switch {
	case d.Outcome == notify.Now:
		t.takePlaces(t.now)
	case d.Outcome != notify.Later:
	case d.Turn == notify.MaxTurn:
		t.decideAtLimit(w)
	case toDigest:
		t.deferToSlot()
	default:
		t.deferUntilFree(w, blockers)
	}
}

// reasonOfNow is the reason of a NOW that a rule says: a follow-up keeps its own.
func (t *turn) reasonOfNow() string {
	if t.event.Follows != nil {
		return t.event.Follows.Reason
	}
	return t.rule.Action.Reason
}

// heldStages are the reasons of stages 7 to 9, without the rule's.
func (t *turn) heldStages() (all []string) {
	for _, reason := range stages {
		if t.held(reason) {
			all = append(all, reason)
		}
	}
	return all
}

// decideAtLimit is stage 11.
func (t *turn) decideAtLimit(w *waiter) {
	d := &t.decision
	switch awake := t.awake(w); {
	case !t.policy.NowAtLimit:
		t.never(notify.ReasonDeferLimit)
	case len(awake) > 0:
		t.sendOn(awake, append([]string{notify.ReasonDeferLimit}, t.waits...)...)
	default:
		least := engine.Millis(math.MaxInt64)
		for _, c := range w.channels {
			free, _, _ := freeAfter(t.hushes(w, c), t.now)
			least = min(least, free)
		}
		d.Outcome, d.DeferUntil = notify.Postponed, least
	}
}
