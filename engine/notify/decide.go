package notify

import (
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
)

// Decide returns the record of one turn of an event. It reads its arguments only;
// the caller folds the record into the state. A nil state is that of a user without
// records. event.Print is set ([Policy.Print]); set.Local.Zone is not nil. now is
// moved on to the state's newest decided_at, because a user's time never runs
// backwards.
//
// The stages, in this order: the user is erased, the event is expired; mutes and
// channels; exact and near duplicates; rules; caps, cooldown and quiet hours, whose
// reasons are collected; the score; the limit of deferrals; an expiry before the
// deferral ends. The first stage with a final outcome ends the decision.
func Decide(set *Set, prefs *Preferences, state *State, event *Notification, turn Turn, score Score, now engine.Millis) (r Record) {
	d := begin(&r, set, prefs, state, event, turn, score, now)
	if d.ended() || d.repeats() {
		return r
	}
	d.measure()
	if d.ruledOut() {
		return r
	}
	d.hold()
	if d.keepsSlot() {
		return r
	}
	switch {
	case d.says(Later):
		d.defers(d.action.Strategy, d.collected())
	case d.holds.any():
		d.defers(0, d.collected())
	case d.says(Now):
		r.Facts.Forced = true
		d.sends(d.action.Reason)
	default:
		d.weigh()
	}
	d.takesPlaces()
	return r
}

// decision is one run of the stages. Each stage reads what is above record and
// writes the record.
type decision struct {
	set     *Set
	policy  *TypePolicy
	prefs   *Preferences // effective
	state   *State
	event   *Notification
	turn    Turn
	now     engine.Millis
	record  *Record
	allowed []Channel
	action  *Action // of the rule that matched; nil: none
	holds   holds
	own     *Reservation // the event's; nil: none
	slots   slots
	// waitsForSlot: a cap or a cooldown has moved its time.
	waitsForSlot bool
}

var noState State

// begin fills what every record has.
func begin(r *Record, set *Set, prefs *Preferences, state *State, event *Notification, turn Turn, score Score, now engine.Millis) decision {
	if state == nil {
		state = &noState
	}
	r.EventID, r.UserID, r.Type, r.Source, r.Print = event.ID, event.UserID, event.Type, event.Source, event.Print
	r.RuleVersion, r.Turn, r.Spent = set.Version, turn.Number, turn.Spent
	r.DecidedAt = max(now, state.DecidedAt)
	r.Facts.Preferences = *prefs
	r.Facts.Preferences.Zone = zoneOf(set, prefs, event)
	r.Facts.Due = turn.Due
	r.Facts.Horizon = set.Policy.Horizon()
	r.Facts.Tzdata = quiet.Tzdata()
	r.Facts.Taste = score
	d := decision{
		set: set, policy: &set.Policy.Types[event.Type], prefs: &r.Facts.Preferences, state: state, event: event,
		turn: turn, now: r.DecidedAt, record: r,
	}
	// A turn that comes again finds what its own record reserved: that is of the next turn.
	if i := state.reserved(event.ID); i >= 0 && turn.Number > 0 && (turn.Due == 0 || state.Reserved[i].Made < turn.Due) {
		d.own = &state.Reserved[i]
	}
	return d
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
func (d *decision) sends(reason string, collected ...string) {
	d.record.Outcome, d.record.Reasons, d.record.Channels = Now, append([]string{reason}, collected...), d.allowed
}

// ended is the stages of the user's erasure, the expiry, mutes and channels.
func (d *decision) ended() bool {
	if d.state.Erased {
		return d.never(ReasonUserErased)
	}
	if d.event.ExpiresAt != 0 && d.now >= d.event.ExpiresAt {
		return d.never(ReasonExpired)
	}
	if d.event.Type != Security && contains(d.prefs.Muted, d.event.Type) {
		return d.never(ReasonMuted)
	}
	return d.noneOf(d.event.Channels)
}

// noneOf ends the decision where the user allows none of the channels, the event's or a
// rule's. SECURITY keeps them all then.
func (d *decision) noneOf(channels []Channel) bool {
	if d.allowed = d.allow(channels); len(d.allowed) > 0 {
		return false
	}
	if d.event.Type != Security {
		return d.never(ReasonNoChannel)
	}
	d.allowed = channels
	return false
}

// allow returns those of the channels that the user allows.
func (d *decision) allow(channels []Channel) []Channel {
	for i, c := range channels {
		if d.allows(c) {
			continue
		}
		allowed := append([]Channel(nil), channels[:i]...)
		for _, c := range channels[i+1:] {
			if d.allows(c) {
				allowed = append(allowed, c)
			}
		}
		return allowed
	}
	return channels
}

func (d *decision) allows(c Channel) bool {
	return len(d.prefs.Channels) == 0 || contains(d.prefs.Channels, c)
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

// repeats is the stages of exact and near duplicates. They compare the event with
// the marks of others of its type, newest first: exactly with all, then nearly.
func (d *decision) repeats() bool {
	if d.policy.DuplicateWindow == 0 {
		return false
	}
	if m := d.repeated(false); m != nil {
		d.record.DuplicateOf = m.EventID
		return d.never(ReasonDuplicate)
	}
	if !d.policy.Near {
		return false
	}
	if m := d.repeated(true); m != nil {
		d.record.DuplicateOf = m.EventID
		return d.never(ReasonNearDuplicate)
	}
	return false
}

// repeated returns the newest mark that is of the event's type, within the window
// and the same, or nearly the same; nil where there is none. The event's own mark is
// not compared.
func (d *decision) repeated(nearly bool) *Mark {
	after := d.now - d.policy.DuplicateWindow
	for i := len(d.state.Marks) - 1; i >= 0; i-- {
		m := &d.state.Marks[i]
		if m.Type != d.event.Type || m.At <= after || m.EventID == d.event.ID {
			continue
		}
		if d.policy.ByKeyOnly && !d.event.Print.SameKey(m.Print) {
			continue
		}
		if !nearly && d.event.Print.Same(m.Print) || nearly && d.near(m) {
			return m
		}
	}
	return nil
}

func (d *decision) near(m *Mark) bool {
	measure, near := d.event.Print.Near(m.Print)
	if near {
		d.record.Facts.Measure = measure
	}
	return near
}

// ruledOut is the stage of the rules: it reports whether the one that matches says
// NEVER, or names channels of which the user allows none.
func (d *decision) ruledOut() bool {
	d.match()
	if d.action == nil {
		return false
	}
	d.record.RuleID, d.record.Facts.RuleName = d.action.Rule, d.action.Name
	if d.action.Outcome == Never {
		return d.never(d.action.Reason)
	}
	return len(d.action.Channels) > 0 && d.noneOf(d.action.Channels)
}

// maxNear bounds the rules that a record says nearly matched.
const maxNear = 3

// match finds the rule.
func (d *decision) match() {
	if d.set.Rules == nil {
		return
	}
	in := inputs.Get().(*Input)
	d.input(in)
	d.action = d.set.Rules.Match(in, d.turn.Spent)
	if rules, ok := d.set.Rules.(NearRules); ok {
		d.record.Facts.Near = rules.NearBefore(in, d.action, maxNear)
	}
	in.Event = nil
	inputs.Put(in)
}

// held returns the reasons of what holds the event, in the order of the stages.
func (d *decision) held() []string {
	reasons := make([]string, 0, 5)
	for i, held := range d.holds.caps {
		if held {
			reasons = append(reasons, capReasons[i])
		}
	}
	if d.holds.cooldown {
		reasons = append(reasons, ReasonCooldown)
	}
	if d.holds.quiet {
		reasons = append(reasons, ReasonQuietHours)
	}
	return reasons
}

var capReasons = [len(Windows)]string{ReasonCap5M, ReasonCap1H, ReasonCap24H}

// spend adds the rule that was part of a deferral to the event's spent ones.
func (d *decision) spend() {
	spent := make([]uuid.UUID, 0, len(d.turn.Spent)+1)
	d.record.Spent = append(append(spent, d.turn.Spent...), d.action.Rule)
}
