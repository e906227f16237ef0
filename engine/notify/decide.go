package notify

import (
	"sync"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
)

// Decide returns the record of one turn of an event. It reads its arguments only;
// the caller folds the record into the state. A nil state is that of a user without
// records. event.Print is set ([Policy.Print]); set.Local.Zone is not nil. now is
// moved on to the state's newest decided_at, because a user's time never runs
// backwards. [Stages] has what it runs.
func Decide(set *Set, prefs *Preferences, state *State, event *Notification, turn Turn, score Score, now engine.Millis) (made Record) {
	d := decisions.Get().(*decision)
	d.begin(set, prefs, state, event, turn, score, now)
	d.run(&made)
	return made
}

// decisions keeps decisions, because one that is handed to a function value or an
// interface is allocated on the heap.
var decisions = sync.Pool{New: func() any { return new(decision) }}

// run runs the stages until one ends the decision. Without one the event waits. It fills the
// caller's record, because a record is large and costs time to copy, and ends the decision.
func (d *decision) run(made *Record) {
	ended := false
	for i := 0; i < len(Stages) && !ended; i++ {
		ended = Stages[i].decide(d)
	}
	if !ended {
		d.postpone()
	}
	d.takesPlaces()
	d.follow()
	*made = d.made
	bounds := d.bounds[:0]
	*d = decision{}
	d.bounds = bounds
	decisions.Put(d)
}

// decision is one run of the stages. Each stage reads what is above record and
// writes the record and what is below it.
type decision struct {
	set      *Set
	policy   *TypePolicy
	prefs    *Preferences // effective
	state    *State
	event    *Notification
	turn     Turn
	item     *Due // the event is one of a digest; nil: it is decided by itself
	now      engine.Millis
	record   *Record // made
	made     Record
	input    Input
	allowed  []Channel
	action   *Action // of the rule that matched; nil: none
	holds    holds
	nearMark *Mark        // of what the event nearly repeats; nil: none
	nearBy   string       // the measure that says so
	own      *Reservation // the event's; nil: none
	slots    slots
	bounds   []bound         // limits that bound the event
	sent     Sent            // what limits know of it
	topic    *Topic          // nil: none
	free     bool            // no preference of topics, mute, snooze or pause concerns the event
	chosen   TopicPreference // what the user has chosen of the topic
	// Channels that the user allows: those that are open now, those that are held, and
	// those that the user wants in digests beside or instead of them.
	open, held, inDigest []Channel
	onlyDigest           bool // the user wants it in digests alone
	alike                bool // the same holds each channel
	// quietFrom, quietTo: from each instant between them on, quietTo is the least that is not
	// quiet.
	quietFrom, quietTo engine.Millis
	// waitsForSlot: a cap or a cooldown has moved its time.
	waitsForSlot bool
	collected    []string  // reasons to wait, in the order of their stages
	reasons      [8]string // room for them: a record has a copy
	wait         wait      // how long it waits, once a stage knows it
}

// wait is what an event does that no stage ends.
type wait struct {
	outcome   Outcome // 0: it is not known yet
	until     engine.Millis
	reasons   []string // nil: those that were collected
	slot      engine.Millis
	digestKey string
}

var noState State

// begin fills what every record has.
func (d *decision) begin(set *Set, prefs *Preferences, state *State, event *Notification, turn Turn, score Score, now engine.Millis) {
	if state == nil {
		state = &noState
	}
	r := &d.made
	r.EventID, r.UserID, r.Type, r.Source, r.Print = event.ID, event.User(), event.Type, event.Source, event.Print
	r.RuleVersion, r.Turn, r.Spent = set.Version, turn.Number, turn.Spent
	r.DecidedAt = max(now, state.DecidedAt)
	r.Facts.Preferences = *prefs
	r.Facts.Preferences.Zone = zoneOf(set, prefs, event)
	r.Facts.Due = turn.Due
	r.Facts.Horizon = set.Policy.Horizon()
	r.Facts.Tzdata = quiet.Tzdata()
	r.Facts.Taste = score
	d.topic = set.Policy.TopicOf(event)
	d.free = event.Type == Security || d.topic != nil && d.topic.Locked
	if d.topic != nil {
		r.Facts.Topic = d.topic.Name
	}
	if d.topic != nil && !d.free {
		d.chosen = prefs.Topics[d.topic.Name]
	}
	if event.Follows != nil {
		r.Facts.Root, r.Facts.Step, r.Facts.Reported = event.Follows.Root, event.Follows.Step, turn.Reported
	}
	d.set, d.policy, d.prefs, d.state, d.event = set, &set.Policy.Types[event.Type], &r.Facts.Preferences, state, event
	d.turn, d.now, d.record = turn, r.DecidedAt, r
	// A turn that comes again finds what its own record reserved: that is of the next turn.
	if i := state.reserved(event.ID); i >= 0 && turn.Number > 0 && (turn.Due == 0 || state.Reserved[i].Made < turn.Due) {
		d.own = &state.Reserved[i]
	}
}

// zoneOf returns the zone whose clock the user reads: the user's own, else the one
// that the event names, else that of the settings.
func zoneOf(set *Set, prefs *Preferences, event *Notification) *quiet.Zone {
	if prefs.Zone != nil {
		return prefs.Zone
	}
	if named := event.Metadata.Get("timezone"); named.Kind == String {
		if zone, err := quiet.LoadZone(named.Text); err == nil {
			return zone
		}
	}
	return set.Local.Zone
}

// says reports whether a rule with that outcome matched.
func (d *decision) says(o Outcome) bool { return d.action != nil && d.action.Outcome == o }

// never ends the decision. The reason that decides is the first.
func (d *decision) never(reason string, collected ...string) bool {
	d.record.Outcome, d.record.Reasons = Never, append([]string{reason}, collected...)
	return true
}

// sends ends the decision. The reason that decides is the first.
func (d *decision) sends(reason string, collected ...string) bool {
	d.record.Outcome, d.record.Reasons, d.record.Channels = Now, append([]string{reason}, collected...), d.open
	return true
}

// over is the stage of the user's erasure and the expiry.
func (d *decision) over() bool {
	if d.state.Erased {
		return d.never(ReasonUserErased)
	}
	if d.event.ExpiresAt != 0 && d.now >= d.event.ExpiresAt {
		return d.never(ReasonExpired)
	}
	return false
}

// unwanted is the stage of mutes, pause and channels.
func (d *decision) unwanted() bool {
	if !d.free {
		switch {
		case contains(d.prefs.Muted, d.event.Type):
			return d.never(ReasonMuted)
		case d.prefs.Paused:
			return d.never(ReasonPaused)
		case d.now < max(d.prefs.MutedUntil, d.chosen.MutedUntil):
			return d.never(ReasonMuted)
		}
	}
	return d.noneOf(d.event.Channels)
}

// readBefore is the stage of the reports that end a follow-up.
func (d *decision) readBefore() bool {
	f := d.event.Follows
	switch {
	case f == nil || !f.Unless.ends(d.turn.Reported):
		return false
	case d.turn.Reported&wasRead != 0:
		return d.never(ReasonRead)
	default:
		return d.never(ReasonDelivered)
	}
}

// noneOf ends the decision where the user allows none of the channels, the event's or a
// rule's. SECURITY keeps them all then.
func (d *decision) noneOf(channels []Channel) bool {
	d.allow(channels)
	if len(d.allowed) > 0 {
		return false
	}
	if d.event.Type != Security {
		return d.never(ReasonNoChannel)
	}
	d.allowed = channels
	return false
}

// allow finds those of the channels that the user allows, and those that the user wants in
// digests. Where all are these, they are allowed.
func (d *decision) allow(channels []Channel) {
	d.inDigest, d.onlyDigest = nil, false
	if len(d.prefs.Channels) == 0 && d.chosen.allOn() {
		d.allowed = channels
		return
	}
	var on, digest, either []Channel
	for _, c := range channels {
		if len(d.prefs.Channels) > 0 && !contains(d.prefs.Channels, c) {
			continue
		}
		switch d.chosen.Channels[c] {
		case ChoiceOff:
			continue
		case ChoiceDigest:
			digest = append(digest, c)
		default:
			on = append(on, c)
		}
		either = append(either, c)
	}
	switch {
	case d.item != nil || len(on) == 0:
		d.allowed, d.onlyDigest = either, len(digest) > 0
	default:
		d.allowed, d.inDigest = on, digest
	}
}

// contains is slices.Contains, for the short lists of a decision.
func contains[T comparable](list []T, wanted T) bool {
	for _, one := range list {
		if one == wanted {
			return true
		}
	}
	return false
}

// ruledOut is the stage of the rules: it reports whether the one that matches says
// NEVER, or names channels of which the user allows none. Of an item of a digest, only a
// rule's NEVER counts.
func (d *decision) ruledOut() bool {
	d.measure()
	d.match()
	if d.item != nil && !d.says(Never) || d.event.Follows != nil && d.says(Later) {
		d.action = nil
	}
	if d.action == nil {
		return false
	}
	d.record.RuleID, d.record.Facts.RuleName = d.action.Rule, d.action.Name
	if d.action.Outcome == Never {
		return d.never(d.action.Reason)
	}
	return len(d.action.Channels) > 0 && d.event.Follows == nil && d.noneOf(d.action.Channels)
}

// maxNear bounds the rules that a record says nearly matched.
const maxNear = 3

// match finds the rule.
func (d *decision) match() {
	if d.set.Rules == nil {
		return
	}
	d.ask()
	if rules, ok := d.set.Rules.(NearRules); ok {
		d.action, d.record.Facts.Near = rules.MatchNear(&d.input, d.turn.Spent, maxNear)
	} else {
		d.action = d.set.Rules.Match(&d.input, d.turn.Spent)
	}
}

// ruled is the stage of the rule's NOW or LATER, and of digests. It finds what holds the
// event: a NOW that nothing holds ends the decision, and a LATER is a reason to wait.
func (d *decision) ruled() bool {
	if d.item != nil {
		return d.digested()
	}
	d.hold()
	if d.own != nil && (d.ruleWaits() || d.holds.any()) && !d.keepsSlot() {
		d.own = nil
		d.measure()
		d.hold()
	}
	switch {
	case d.says(Now) && !d.holds.any():
		d.record.Facts.Forced = true
		if d.event.Follows != nil {
			return false // its own reason stands for it
		}
		return d.sends(d.action.Reason)
	case d.wait.outcome != 0:
	case d.turn.Takes != nil && d.turn.Takes.DueAt > d.now:
		place := d.turn.Takes
		d.record.Facts.Takes = *place
		d.wait = wait{Later, place.DueAt, []string{ReasonReplaces}, place.Slot, place.DigestKey}
	case d.onlyDigest && d.turn.Number < MaxTurn:
		d.digests([]string{ReasonTopicDigest})
		d.wait.digestKey = d.topic.Name
	case d.ruleWaits():
		d.record.Facts.Strategy = d.action.Strategy
		d.collect(true, d.action.Reason)
	}
	return false
}

// ruleWaits reports whether a rule's LATER holds the event: one that waits for the likely hour
// may have none to wait for.
func (d *decision) ruleWaits() bool {
	return d.says(Later) && (d.action.Strategy != LikelyHour || d.likelyHour() > d.now)
}

// capped, cools and rests are the stages of caps and limits, cooldown, and quiet hours.
func (d *decision) capped() bool {
	for i, held := range d.holds.caps {
		d.collect(held, capReasons[i])
	}
	return d.collect(d.holds.limit, ReasonLimit)
}

func (d *decision) cools() bool { return d.collect(d.holds.cooldown, ReasonCooldown) }

func (d *decision) rests() bool {
	d.collect(d.holds.snooze, ReasonSnoozed)
	return d.collect(d.holds.quiet, ReasonQuietHours)
}

// collect keeps the reason of what holds the event. It ends no decision.
func (d *decision) collect(holds bool, reason string) bool {
	if holds && d.collected == nil {
		d.collected = d.reasons[:0]
	}
	if holds {
		d.collected = append(d.collected, reason)
	}
	return false
}

var capReasons = [len(Windows)]string{ReasonCap5M, ReasonCap1H, ReasonCap24H}

// spend adds the rule that was part of a deferral to the event's spent ones.
func (d *decision) spend() {
	spent := make([]uuid.UUID, 0, len(d.turn.Spent)+1)
	d.record.Spent = append(append(spent, d.turn.Spent...), d.action.Rule)
}
