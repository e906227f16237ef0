package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Explanation tells why an event was decided as it was. It is made from the record alone.
type Explanation struct {
	// Lines are sentences for people who do not know keyfold: what each stage saw, why
	// the event was not sent at once, and what follows. Times are those of the user's clock.
	Lines []string `json:"explanation"`
	// Stages are what the decision went through, in its order; none of an erased user.
	Stages []StageExplanation `json:"stages"`
	// DecidedBy is the name of the stage that made the decision, or of the first one that
	// holds it; "" of an erased user, and where no stage of this version did.
	DecidedBy string `json:"decided_by,omitempty"`
	// NotNow is why a decision is not NOW, one sentence for each reason; empty of a NOW.
	NotNow []string `json:"why_not_now"`
	Next   *Next    `json:"next_turn"` // of LATER
	Erased bool     `json:"erased"`    // the user was erased: nothing else is told
}

// Next is when a deferred event is decided again.
type Next struct {
	Turn int     `json:"turn"`
	At   instant `json:"at"`
	// Digest is the key of the digest that it waits for, "" for none.
	Digest string `json:"digest,omitempty"`
}

// Explain explains a decision. Of the event it takes title and expiry, and a nil event
// leaves them out, as a delivery without status does what became of it.
func Explain(d *Decided) Explanation {
	if d.Record.UserID == "" {
		return Explanation{
			Lines:  []string{"The user of this decision was erased. What explained it was erased with the user."},
			Stages: []StageExplanation{}, NotNow: []string{}, Erased: true,
		}
	}
	e := explanation{record: &d.Record, event: d.Event, location: time.UTC, zone: "UTC"}
	if zone := d.Record.Facts.Preferences.Zone; zone != nil {
		if location, err := time.LoadLocation(zone.Name()); err == nil {
			e.location, e.zone = location, zone.Name()
		}
	}
	x := Explanation{}
	if stage := d.Record.Stage(); stage > 0 {
		x.DecidedBy = Stages[stage-1].Name
	}
	e.last = e.lastStage()
	e.headline()
	for i := range Stages {
		// What can hold an event is measured before a rule sends it.
		if i <= e.last || e.last >= stageRule {
			Stages[i].tell(&e)
		}
	}
	e.outcome()
	e.slots()
	e.delivery(&d.Delivery)
	x.Lines, x.Stages, x.NotNow, x.Next = e.lines, e.stages(), e.notNow(), e.next()
	return x
}

type explanation struct {
	record   *Record
	event    *Notification
	location *time.Location
	zone     string
	last     int // the place of the stage that ended the decision, or the one behind all
	purpose  purpose
	lines    []string
}

// purpose is what sentences are for.
type purpose uint8

const (
	forLines  purpose = iota // the explanation
	forStage                 // one stage of it, with what did not matter
	forNotNow                // only what keeps the event
)

func (e *explanation) say(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

// because reports whether a reason is among the record's.
func (e *explanation) because(reason string) bool { return slices.Contains(e.record.Reasons, reason) }

// clock writes an instant as the user's clock shows it, with the day where it is
// another one than that of the decision.
func (e *explanation) clock(at engine.Millis) string {
	t, decided := at.Time().In(e.location), e.record.DecidedAt.Time().In(e.location)
	if t.Format(time.DateOnly) == decided.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("15:04:05 on Monday, 2 January 2006")
}

func (e *explanation) headline() {
	title := ""
	if e.event != nil && e.event.Title != "" {
		title = fmt.Sprintf(" %q", e.event.Title)
	}
	e.say("%s%s for user %s was decided at %s (%s): %s.", e.record.Type, title, e.record.UserID,
		e.record.DecidedAt.Time().In(e.location).Format("15:04:05 on Monday, 2 January 2006"), e.zone, e.record.Outcome)
	if e.record.Turn > 0 {
		e.say("It had waited before: this is decision %d of at most %d.", e.record.Turn+1, MaxTurn+1)
	}
}

func (e *explanation) over() {
	switch {
	case e.because(ReasonUserErased):
		e.say("The user's data was erased, so nothing is sent any more.")
	case e.because(ReasonExpired) && e.event != nil:
		e.say("It expired at %s, before it could be decided.", e.clock(e.event.ExpiresAt))
	case e.because(ReasonExpired):
		e.say("It expired before it could be decided.")
	case e.because(ReasonCancelled):
		e.say("The service that sent it has cancelled it.")
	case e.because(ReasonReplaced):
		e.say("Event %s has taken its place.", e.record.DuplicateOf)
	case e.purpose == forStage && e.event != nil && e.event.ExpiresAt != 0:
		e.say("It expires at %s.", e.clock(e.event.ExpiresAt))
	}
}

func (e *explanation) unwanted() {
	p, topic := &e.record.Facts.Preferences, e.record.Facts.Topic
	switch {
	case e.because(ReasonPaused):
		e.say("The user has paused all notifications.")
	case e.because(ReasonMuted) && slices.Contains(p.Muted, e.record.Type):
		e.say("The user has muted notifications of the type %s.", e.record.Type)
	case e.because(ReasonMuted) && p.MutedUntil > e.record.DecidedAt:
		e.say("The user has muted all notifications until %s.", e.clock(p.MutedUntil))
	case e.because(ReasonMuted):
		e.say("The user has muted the topic %q until %s.", topic, e.clock(p.Topics[topic].MutedUntil))
	case e.because(ReasonNoChannel) && e.last != stageRules:
		e.say("The user allows %s, and the event names none of these.", e.wanted())
	case e.purpose == forStage && (len(p.Channels) > 0 || p.Topics[topic] != TopicPreference{}):
		e.say("The user allows %s.", e.wanted())
	}
}

// wanted tells which channels the user allows, with those of the event's topic.
func (e *explanation) wanted() string {
	p, topic := &e.record.Facts.Preferences, e.record.Facts.Topic
	all := list(Channels)
	if len(p.Channels) > 0 {
		all = list(p.Channels) + " only"
	}
	for _, c := range Channels {
		if choice := p.Topics[topic].Channels[c]; choice != 0 {
			all += fmt.Sprintf(", and of %q has %s %s", topic, c, choice)
		}
	}
	return all
}

// readBefore tells of a follow-up, and of what was reported before it.
func (e *explanation) readBefore() {
	f := &e.record.Facts
	if f.Step == 0 {
		return
	}
	e.say("It follows event %s on %s.", f.Root, e.channelsOfEvent())
	switch {
	case e.because(ReasonRead):
		e.say("The user has opened, clicked or dismissed that one already.")
	case e.because(ReasonDelivered):
		e.say("That one was delivered already.")
	case e.purpose == forStage && f.Reported == 0:
		e.say("Nothing was reported of that one.")
	}
}

func (e *explanation) channelsOfEvent() string {
	if e.event == nil {
		return "other channels"
	}
	return list(e.event.Channels)
}

func (e *explanation) repeats() {
	if e.because(ReasonDuplicate) {
		e.say("It says the same as event %s, which was sent or waits already.", e.record.DuplicateOf)
	}
}

func (e *explanation) nearlyRepeats() {
	if e.because(ReasonNearDuplicate) {
		e.say("It says nearly the same as event %s, which was sent or waits already (found by %s).",
			e.record.DuplicateOf, measures[e.record.Facts.Measure])
	}
}

// measures are the measures of near duplicates in words.
var measures = map[string]string{"": "comparison", "simhash": "a fingerprint of the text", "words": "the words that both have"}

// rules tells of the rule that ends the decision, and of those that one comparison kept
// from matching.
func (e *explanation) rules() {
	r := e.record
	switch {
	case r.RuleID == uuid.Nil:
		e.say("No rule of the set %s decides it.", r.RuleVersion)
	case e.last == stageRules && e.because(ReasonNoChannel):
		e.say("The user allows %s, and the rule %q names none of these.", e.wanted(), r.Facts.RuleName)
	case e.last == stageRules:
		e.say("The rule %q says that it is never sent (%s).", r.Facts.RuleName, strings.Join(r.Reasons, ", "))
	}
	if e.purpose == forNotNow {
		return
	}
	for _, line := range r.Facts.Near {
		e.say("A rule nearly matched: %s.", line)
	}
}

// rule tells of a rule that says NOW or LATER.
func (e *explanation) rule() {
	r := e.record
	switch {
	case e.because(ReasonTopicDigest):
		e.say("The user wants the topic %q in digests.", r.Facts.Topic)
	case e.because(ReasonReplaces):
		e.say("It has the place of one that it replaces: %s.", e.clock(r.Facts.Takes.DueAt))
	case r.RuleID == uuid.Nil:
	case r.Facts.Forced:
		e.say("The rule %q sends it at once: no limit and no quiet hours that it heeds hold it.", r.Facts.RuleName)
	case r.Facts.RuleUntil != 0:
		e.say("The rule %q makes it wait until %s (%s).", r.Facts.RuleName, e.clock(r.Facts.RuleUntil), strategies[r.Facts.Strategy])
	case r.Facts.Strategy != 0:
		e.say("The rule %q would make it wait (%s).", r.Facts.RuleName, strategies[r.Facts.Strategy])
	default:
		e.say("The rule %q would send it at once, but not past all limits.", r.Facts.RuleName)
	}
}

// strategies are the strategies in words.
var strategies = [strategyCount]string{
	"", "15 minutes", "the next full hour", "the next morning", "the end of the quiet hours", "the next digest",
	"the hour at which the user is likely to open it",
}

var windowNames = [len(Windows)]string{"5 min", "1 h", "24 h"}

func (e *explanation) score() {
	switch {
	case e.because(ReasonEscalated):
		e.say("It is the next step of the rule's chain of channels.")
	case e.because(ReasonOtherChannel):
		e.say("It goes on by the channels that were held before.")
	}
	if !e.record.Scored {
		return
	}
	x := &e.record.Facts.Parts
	taste := ""
	if e.record.Facts.TasteUsed {
		taste = fmt.Sprintf(", the user's taste %.2f", x.Taste)
	} else if why := e.record.Facts.Taste.Skip.text(); why != "" {
		taste = fmt.Sprintf(" (without the user's taste: %s)", why)
	}
	habit := ""
	if h, lift := e.record.Facts.Taste.Habit, e.record.Facts.Response; lift != 0 {
		habit = fmt.Sprintf("; how the user responds to the type (%.1f of %.1f opened) makes it %+.2f", h.Opened, h.Delivered, lift)
	}
	e.say("Nothing holds it, so its score decides: %.2f of 1, from its type %.2f, the sender's hint %.2f%s, its freshness %.2f and how little was sent lately %.2f%s.",
		e.record.Score, x.Base, x.Hint, taste, x.Recency, x.Calm, habit)
	switch {
	case e.because(ReasonScoreHigh):
		e.say("That is enough to send it at once.")
	case e.because(ReasonScoreLow):
		e.say("That is too little to send it.")
	case e.record.Outcome == Now:
		e.say("That is enough for a digest only, but it has waited before.")
	case e.because(ReasonScoreDigest):
		e.say("That is enough for the next digest, not to be sent at once.")
	}
}

func (e *explanation) outcome() {
	r := e.record
	switch {
	case e.because(ReasonExpiresFirst), e.because(ReasonDeferLimit): // their stages have told it
	case r.Outcome == Never:
		e.say("It is never sent.")
	case r.DigestID != uuid.Nil:
		e.say("It is sent in the digest %s, with what else waited for it, by %s.", r.DigestID, list(r.Channels))
	case r.Outcome == Now:
		e.say("It is sent now, by %s.", list(r.Channels))
	case r.DigestKey != "":
		e.say("It waits for the digest %q of %s (%s).", r.DigestKey, e.clock(r.DeferUntil), strings.Join(r.Reasons, ", "))
	case r.Outcome == Later:
		e.say("It waits until %s (%s)%s and is then decided again (decision %d of at most %d).",
			e.clock(r.DeferUntil), strings.Join(r.Reasons, ", "), e.moved(), r.Turn+2, MaxTurn+1)
	case e.because(ReasonSnoozed):
		e.say("It waits until %s.", e.clock(r.DeferUntil))
	case !e.because(ReasonQuietHours) && !e.because(ReasonDigested):
		e.say("It waits for its slot at %s.", e.clock(r.DeferUntil))
	default:
		e.say("It waits until the user's quiet hours end at %s.", e.clock(r.DeferUntil))
	}
}

// slots tells of the slot that is kept for the event, and of those that it took.
func (e *explanation) slots() {
	if e.record.Facts.Reserved {
		e.say("A slot is kept for it at that time.")
	}
	for i := range e.record.Facts.FollowUps {
		f := &e.record.Facts.FollowUps[i]
		e.say("By %s it is decided at %s, as event %s%s.", list(f.Channels), e.clock(f.At), f.EventID, untils[f.Unless])
	}
	if n := len(e.record.Facts.Moved); n > 0 {
		e.say("It takes a place that was kept for others, which are less urgent: %d of them wait longer.", n)
	}
}

// untils are the ends of chains in words.
var untils = [unlessCount]string{UnlessRead: ", unless it was read until then", UnlessDelivered: ", unless it was delivered until then"}

// moved tells why a deferral ends later than all that was seen to hold the event.
func (e *explanation) moved() string {
	f := &e.record.Facts
	if e.record.DeferUntil <= max(f.RuleUntil, f.Frees[0], f.Frees[1], f.Frees[2], f.CooldownEnd, f.QuietEnd, f.SnoozedTo) {
		return ""
	}
	return ", with slots that are kept for others, quiet hours that begin until then and up to 10 minutes that spread what waits for a morning,"
}

// limit tells what follows the last deferral.
func (e *explanation) limit() {
	switch {
	case !e.because(ReasonDeferLimit):
	case e.record.Outcome == Now:
		e.say("It has waited %d times already and is not held again: it is sent now, by %s.", MaxTurn, list(e.record.Channels))
	case e.record.Outcome == Never:
		e.say("It has waited %d times already and would have to wait again: notifications of the type %s are then never sent.", MaxTurn, e.record.Type)
	default:
		e.say("It has waited %d times already: it is sent when the user's quiet hours end at %s.", MaxTurn, e.clock(e.record.DeferUntil))
	}
}

func (e *explanation) expiresFirst() {
	if !e.because(ReasonExpiresFirst) {
		return
	}
	at := ""
	if e.event != nil && e.event.ExpiresAt != 0 {
		at = " at " + e.clock(e.event.ExpiresAt)
	}
	e.say("It would have to wait until after it expires%s, so it is never sent.", at)
}

// delivery tells what the senders made of a NOW.
func (e *explanation) delivery(d *Delivery) {
	by, at := "", ""
	if d.Channel != 0 {
		by = fmt.Sprintf(" by %s", d.Channel)
	}
	if d.At != 0 {
		at = fmt.Sprintf(" at %s", e.clock(d.At))
	}
	switch {
	case d.Status == Pending:
		e.say("No sender has reported its delivery yet.")
	case d.Status == Delivered:
		e.say("It was delivered%s%s.", by, at)
	case d.Status == DeliveryFailed && d.Error == ErrorExpired:
		e.say("It expired before it was handed to a sender, so it was not sent.")
	case d.Status == DeliveryFailed && d.Error != "":
		e.say("Its delivery%s failed%s: %s.", by, at, strings.TrimRight(d.Error, "."))
	case d.Status == DeliveryFailed:
		e.say("Its delivery%s failed%s.", by, at)
	}
}

// list writes channels for people.
func list(channels []Channel) string {
	names := make([]string, len(channels))
	for i, c := range channels {
		names[i] = c.String()
	}
	return strings.Join(names, ", ")
}
