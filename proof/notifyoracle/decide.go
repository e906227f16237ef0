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
	score    notify.Score
	now      engine.Millis
	rule     *Rule // the one that matched
	allowed  []notify.Channel
	slots    []Slot   // those in its way
	waits    []string // the reasons that are collected
	decision Decision
}

// Decide says what must be decided of an event, and keeps it.
func (u *User) Decide(set *Set, e Event, number int, spent []uuid.UUID, score notify.Score, now engine.Millis) Decision {
	t := u.begin(set, e, number, spent, now)
	t.score = score
	switch {
	case t.ended():
	case t.rule != nil && t.rule.Action.Channels != nil && len(t.allowedOf(t.rule.channels())) == 0:
		t.never(notify.ReasonNoChannel)
	default:
		t.decide()
		t.expiresFirst()
	}
	return t.end()
}

func (u *User) begin(set *Set, e Event, number int, spent []uuid.UUID, now engine.Millis) *turn {
	t := &turn{set: set, user: u, event: e, policy: set.Policy.Types[e.Type], prefs: u.Preferences, state: u.State()}
	t.now = max(now, t.state.DecidedAt) // time never runs backwards
	t.zone = u.zoneOf(set, e)
	caps := set.Policy.Caps
	for i := range caps {
		if t.prefs.Caps[i] > 0 {
			caps[i] = t.prefs.Caps[i]
		}
	}
	t.decision = Decision{
		EventID: e.ID, Type: e.Type, Print: e.Print, Turn: number, Version: set.Version,
		DecidedAt: t.now, Horizon: horizon(&set.Policy), Spent: slices.Clone(spent), Caps: caps, Zone: t.zone.location.String(),
	}
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

// horizon is 24 h, or the longest cooldown or duplicate window.
func horizon(p *notify.Policy) engine.Millis {
	h := engine.Millis(24 * 60 * 60 * 1000)
	for _, t := range p.Types {
		h = max(h, t.Cooldown, t.DuplicateWindow)
	}
	return h
}

// end completes the decision and keeps it. Only a LATER by a rule spends the rule.
func (t *turn) end() Decision {
	d := &t.decision
	if d.Outcome == notify.Later && t.rule.says(notify.Later) {
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
	switch {
	case t.user.Erased:
		return t.never(notify.ReasonUserErased)
	case e.ExpiresAt != 0 && t.now >= e.ExpiresAt:
		return t.never(notify.ReasonExpired)
	case slices.Contains(t.prefs.Muted, e.Type) && e.Type != notify.Security:
		return t.never(notify.ReasonMuted)
	}
	t.allowed = t.allowedOf(e.Channels)
	if len(t.allowed) == 0 {
		return t.never(notify.ReasonNoChannel)
	}
	if t.duplicate() {
		return true
	}
	if t.rule = t.matchRule(); t.rule == nil {
		return false
	}
	t.decision.RuleID = t.rule.ID
	return t.rule.says(notify.Never) && t.never(t.rule.Action.Reason)
}

// never ends the decision: the reason comes first, then those that were collected.
func (t *turn) never(reason string) bool {
	t.decision.Outcome, t.decision.Reasons = notify.Never, append([]string{reason}, t.waits...)
	return true
}

// allowedOf returns those of the channels that the user allows. SECURITY keeps them all
// where none is allowed.
func (t *turn) allowedOf(channels []notify.Channel) (allowed []notify.Channel) {
	for _, c := range channels {
		if len(t.prefs.Channels) == 0 || slices.Contains(t.prefs.Channels, c) {
			allowed = append(allowed, c)
		}
	}
	if len(allowed) == 0 && t.event.Type == notify.Security {
		return channels
	}
	return allowed
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

// send ends the decision with NOW.
func (t *turn) send(reasons ...string) {
	t.decision.Outcome, t.decision.Reasons, t.decision.Channels = notify.Now, reasons, t.allowed
	if t.rule != nil && t.rule.Action.Channels != nil {
		t.decision.Channels = t.allowedOf(t.rule.channels())
	}
}

// blocker is what can hold an event; free returns the least instant from at on at which
// it does not.
type blocker struct {
	reason string
	spread bool // events that it held are spread after it
	slot   bool // it has slots: caps and cooldowns
	free   func(at engine.Millis) engine.Millis
}

// blockers are what applies to the event, in the order of the stages 6 to 9, whether it
// holds the event now or not.
func (t *turn) blockers() (all []blocker) {
	if t.rule.says(notify.Later) && t.rule.Action.Strategy != "digest_window" {
		until := t.ruleUntil()
		spread := t.rule.Action.Strategy == "next_morning" || t.rule.Action.Strategy == "next_quiet_end"
		all = append(all, blocker{t.rule.Action.Reason, spread, false, func(at engine.Millis) engine.Millis { return max(at, until) }})
	}
	if t.policy.Capped && !t.rule.bypasses("caps") {
		taken := instants(t.state.Sends, t.slots)
		for i, reason := range []string{notify.ReasonCap5M, notify.ReasonCap1H, notify.ReasonCap24H} {
			all = append(all, blocker{reason, false, true, func(at engine.Millis) engine.Millis {
				return roomFrom(taken, t.decision.Caps[i], notify.Windows[i], at)
			}})
		}
	}
	if t.policy.Cooldown > 0 && !t.rule.bypasses("cooldown") {
		all = append(all, blocker{notify.ReasonCooldown, false, true, func(at engine.Millis) engine.Millis {
			return t.pauseFrom(t.slots, t.event.Type, at)
		}})
	}
	if t.policy.Quiet && !t.rule.bypasses("quiet_hours") {
		all = append(all, blocker{notify.ReasonQuietHours, true, false, func(at engine.Millis) engine.Millis { return t.zone.quietEnd(t.prefs.Quiet, at) }})
	}
	return all
}

// ruleUntil is the instant of the rule's strategy.
func (t *turn) ruleUntil() engine.Millis {
	switch t.rule.Action.Strategy {
	case "fixed_delay_15m":
		return t.now + 15*minute
	case "next_hour":
		return t.zone.nextPass(t.now, fullHours...)
	case "next_quiet_end":
		if len(t.prefs.Quiet) > 0 {
			return t.zone.nextQuietEnd(t.prefs.Quiet, t.now)
		}
	}
	return t.zone.nextPass(t.now, t.set.Morning)
}

// collect asks what holds the event now, and returns all that could.
func (t *turn) collect() []blocker {
	d := &t.decision
	d.Until, d.Waiting, t.waits = map[string]engine.Millis{}, len(t.slots), nil
	if t.digest() {
		t.waits = append(t.waits, t.rule.Action.Reason)
	}
	blockers := t.blockers()
	for _, b := range blockers {
		if free := b.free(t.now); free > t.now {
			t.waits = append(t.waits, b.reason)
			d.Until[b.reason] = free
		}
	}
	return blockers
}

// digest reports whether a rule makes the event wait for a digest.
func (t *turn) digest() bool {
	return t.rule.says(notify.Later) && t.rule.Action.Strategy == "digest_window"
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
	blockers := t.collect()
	if own != nil && (len(t.waits) > 0 || t.rule.says(notify.Later)) {
		if t.moves(own, blockers) {
			return
		}
		t.seeOthers()
		blockers = t.collect()
	}
	digest := t.digest()
	switch {
	case len(t.waits) > 0:
		d.Outcome, d.Reasons = notify.Later, t.waits
	case t.rule.says(notify.Now):
		t.send(t.rule.Action.Reason)
		d.Forced = true
	default:
		t.decideByScore()
		digest = true
	}
	switch {
	case d.Outcome == notify.Now:
		t.takePlaces(t.now)
	case d.Outcome != notify.Later:
	case d.Turn == notify.MaxTurn && !t.policy.NowAtLimit:
		t.never(notify.ReasonDeferLimit)
	case d.Turn == notify.MaxTurn && t.held(notify.ReasonQuietHours):
		d.Outcome, d.DeferUntil = notify.Postponed, t.zone.quietEnd(t.prefs.Quiet, t.now)
	case d.Turn == notify.MaxTurn:
		t.send(append([]string{notify.ReasonDeferLimit}, t.waits...)...)
	case digest:
		t.deferToSlot()
	default:
		t.deferUntilFree(blockers)
	}
}

// decideByScore is stage 10.
func (t *turn) decideByScore() {
	d, p := &t.decision, t.set.Policy.Score
	sum, weights := 0.0, 0.0
	add := func(weight, value float64) { sum, weights = sum+weight*value, weights+weight }
	add(p.Weights.Base, t.policy.Base)
	add(p.Weights.Hint, map[notify.Hint]float64{notify.Critical: 1, notify.High: .75, 0: .5, notify.Medium: .5, notify.Low: .2}[t.event.Hint])
	if p.Taste && t.score.Known {
		add(p.Weights.Taste, max(0, min(1, (t.score.Cosine-p.Floor)/(p.Ceiling-p.Floor))))
	}
	age := float64(max(0, t.now-t.event.Timestamp))
	add(p.Weights.Recency, math.Exp2(-age/float64(t.policy.HalfLife)))
	fullest := 0.0
	for i, count := range d.Counts {
		fullest = max(fullest, float64(count)/float64(d.Caps[i]))
	}
	add(p.Weights.Calm, 1-min(1, fullest))
	d.Scored, d.Score = true, sum/weights
	switch {
	case d.Score >= p.Now:
		t.send(notify.ReasonScoreHigh)
	case d.Score < p.Later:
		t.never(notify.ReasonScoreLow)
	case d.Turn > 0:
		t.send(notify.ReasonScoreDigest)
	default:
		d.Outcome, d.Reasons = notify.Later, []string{notify.ReasonScoreDigest}
	}
}
