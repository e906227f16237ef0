package notify

import (
	"fmt"
)

func (e *explanation) caps() {
	f := &e.record.Facts
	for i, name := range windowNames {
		switch held := e.held(f.Frees[i], capReasons[i]); {
		case held != StageHolds && e.purpose == forNotNow:
		case held == StagePassed:
			e.say("%s: %d of %d sent.", name, f.Counts[i], f.Caps[i])
		default:
			e.say("%s: %d of %d sent%s, a slot frees at %s%s.", name, f.Counts[i], f.Caps[i], e.waiting(), e.clock(f.Frees[i]), e.unless(capReasons[i]))
		}
	}
	for i := range f.Limits {
		e.limitOf(&f.Limits[i])
	}
}

// limitOf tells what was seen of a limit.
func (e *explanation) limitOf(l *LimitFact) {
	held, of := e.held(l.Frees, ReasonLimit), ""
	if len(l.Channels) > 0 {
		of = " of " + list(l.Channels)
	}
	switch {
	case held != StageHolds && e.purpose == forNotNow:
	case held == StagePassed:
		e.say("The limit %q%s: %d of %d sent.", l.Name, of, l.Count, l.Most)
	default:
		e.say("The limit %q%s: %d of %d sent%s, a slot frees at %s%s.", l.Name, of, l.Count, l.Most, e.waiting(), e.clock(l.Frees), e.unless(ReasonLimit))
	}
}

// waiting tells of the reservations that count beside what was sent.
func (e *explanation) waiting() string {
	if e.record.Facts.Waiting == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d that wait before it", e.record.Facts.Waiting)
}

func (e *explanation) cooldown() {
	if end := e.record.Facts.CooldownEnd; end != 0 {
		e.say("The pause after the last %s%s ends at %s%s.", e.record.Type, e.paused(), e.clock(end), e.unless(ReasonCooldown))
	}
}

// paused tells that the pause follows those of the type that wait, too.
func (e *explanation) paused() string {
	f := &e.record.Facts
	if f.Waiting == 0 {
		return ""
	}
	return ", or after one that waits before it,"
}

func (e *explanation) quiet() {
	if until := e.record.Facts.SnoozedTo; until != 0 {
		e.say("The user wants nothing before %s%s.", e.clock(until), e.unless(ReasonSnoozed))
	}
	defer e.heldChannels()
	if end := e.record.Facts.QuietEnd; end != 0 {
		e.say("The user's quiet hours end at %s%s.", e.clock(end), e.unless(ReasonQuietHours))
	}
}

// heldChannels tells that some channels are held, and others are not.
func (e *explanation) heldChannels() {
	if held := e.record.Facts.Held; len(held) > 0 && e.purpose != forNotNow && e.record.Outcome == Now {
		e.say("That holds %s, not the other channels.", list(held))
	}
}

// unless marks what was seen and does not hold the event. In older records the limit of
// deferrals and the expiry stand alone as reasons, whatever held the event.
func (e *explanation) unless(reason string) string {
	alone := len(e.record.Reasons) == 1 && (e.because(ReasonDeferLimit) || e.because(ReasonExpiresFirst))
	if e.because(reason) || alone || e.record.Outcome == Postponed {
		return ""
	}
	return "; this does not decide here"
}
