package notify

import "github.com/google/uuid"

// Stage is what one stage of a decision saw and did.
type Stage struct {
	Number int         `json:"stage"` // 1 to 12, as in docs/NOTIFICATIONS.md
	Name   string      `json:"name"`
	Result StageResult `json:"result"`
	Saw    []string    `json:"saw,omitempty"`
}

// StageResult is what a stage did to a decision.
type StageResult string

// The results.
const (
	StagePassed   StageResult = "passed"    // it let the event through
	StageHolds    StageResult = "holds"     // it is a reason to wait
	StageEnds     StageResult = "ends"      // it made the decision
	StageSkipped  StageResult = "skipped"   // it was measured and does not count: a rule or the type's policy leaves it out
	StageNotAsked StageResult = "not asked" // another stage had made the decision
)

// stage is how a stage is told: ends are the reasons with which it ends a decision.
type stage struct {
	name string
	ends []string
	saw  func(*explanation)
}

// stageTable has the stages in their order. The rules' NEVER, NOW and LATER have the
// reasons of the rule, so that these end by what the record says of the rule.
var stageTable = [...]stage{
	{"erasure and expiry", []string{ReasonUserErased, ReasonExpired}, (*explanation).sawExpiry},
	{"mutes and channels", []string{ReasonMuted, ReasonNoChannel}, (*explanation).sawChannels},
	{"duplicate", []string{ReasonDuplicate}, (*explanation).sawDuplicate},
	{"near duplicate", []string{ReasonNearDuplicate}, (*explanation).sawDuplicate},
	{"rules", nil, (*explanation).sawRules},
	{"the rule's NOW or LATER", nil, nil},
	{"caps", nil, (*explanation).caps},
	{"cooldown", nil, (*explanation).cooldown},
	{"quiet hours", nil, (*explanation).quiet},
	{"score", []string{ReasonScoreHigh, ReasonScoreDigest, ReasonScoreLow}, (*explanation).score},
	{"limit of deferrals", []string{ReasonDeferLimit}, nil},
	{"expiry before the deferral ends", []string{ReasonExpiresFirst}, nil},
}

// Numbers of stages that the code names.
const (
	stageRules    = 5
	stageRule     = 6
	stageCaps     = 7
	stageCooldown = 8
	stageQuiet    = 9
	stageScore    = 10
)

// stages tells each stage.
func (e *explanation) stages() []Stage {
	all := make([]Stage, len(stageTable))
	last := e.last()
	for i, s := range stageTable {
		number := i + 1
		all[i] = Stage{Number: number, Name: s.name, Result: e.result(number, last)}
		if s.saw != nil && (all[i].Result != StageNotAsked) && (number != 4 || last == 4) {
			told := explanation{record: e.record, event: e.event, location: e.location, zone: e.zone}
			s.saw(&told)
			all[i].Saw = told.lines
		}
	}
	return all
}

// last returns the stage that made the decision; of a LATER that waits for what was
// collected, the one behind all.
func (e *explanation) last() int {
	for i, s := range stageTable {
		for _, reason := range s.ends {
			if e.because(reason) && (i+1 != stageScore || e.record.Scored) {
				if reason == ReasonNoChannel && e.record.RuleID != uuid.Nil {
					return stageRules
				}
				return i + 1
			}
		}
	}
	switch {
	case e.stopped():
		return stageRules
	case e.record.Facts.Forced || e.record.DigestID != uuid.Nil:
		return stageRule
	default:
		return len(stageTable) + 1
	}
}

func (e *explanation) result(number, last int) StageResult {
	measured := number >= stageCaps && number <= stageQuiet && e.seen(number)
	switch {
	case number == last:
		return StageEnds
	case number > last && measured && last == stageRule:
		return StageSkipped
	case number > last, number == stageScore:
		return StageNotAsked
	case number == stageRule && e.record.RuleID != uuid.Nil && e.record.Facts.Strategy != 0 && !e.record.Scored:
		return StageHolds
	case measured && e.holds(number):
		return StageHolds
	case measured:
		return StageSkipped
	default:
		return StagePassed
	}
}

// seen reports whether a stage that collects saw something that holds an event.
func (e *explanation) seen(number int) bool {
	f := &e.record.Facts
	switch number {
	case stageCaps:
		return max(f.Frees[0], f.Frees[1], f.Frees[2]) != 0
	case stageCooldown:
		return f.CooldownEnd != 0
	default:
		return f.QuietEnd != 0
	}
}

// holds reports whether what a stage saw is a reason of the decision.
func (e *explanation) holds(number int) bool {
	switch number {
	case stageCaps:
		for i, reason := range capReasons {
			if e.record.Facts.Frees[i] != 0 && e.unless(reason) == "" {
				return true
			}
		}
		return false
	case stageCooldown:
		return e.unless(ReasonCooldown) == ""
	default:
		return e.unless(ReasonQuietHours) == ""
	}
}

func (e *explanation) sawExpiry() {
	if e.user(); len(e.lines) == 0 && e.event != nil && e.event.ExpiresAt != 0 {
		e.say("It expires at %s.", e.clock(e.event.ExpiresAt))
	}
}

func (e *explanation) sawChannels() {
	p := &e.record.Facts.Preferences
	if e.user(); len(e.lines) == 0 && len(p.Channels) > 0 {
		e.say("The user allows %s.", list(p.Channels))
	}
}

func (e *explanation) sawDuplicate() { e.repeat() }

func (e *explanation) sawRules() {
	e.rule()
	e.near()
}

// notNow tells why a decision is not NOW.
func (e *explanation) notNow() []string {
	if e.record.Outcome == Now {
		return []string{}
	}
	told := explanation{record: e.record, event: e.event, location: e.location, zone: e.zone}
	told.user()
	told.repeat()
	if e.asked() {
		if e.stopped() || e.result(stageRule, e.last()) == StageHolds {
			told.rule()
		}
		if !e.stopped() {
			told.holding()
		}
	}
	told.score()
	told.outcome()
	return told.lines
}

// holding tells what holds the event.
func (e *explanation) holding() {
	f := &e.record.Facts
	for i, name := range windowNames {
		if f.Frees[i] != 0 && e.unless(capReasons[i]) == "" {
			e.say("%s: %d of %d sent%s, a slot frees at %s.", name, f.Counts[i], f.Caps[i], e.waiting(), e.clock(f.Frees[i]))
		}
	}
	if e.holds(stageCooldown) {
		e.cooldown()
	}
	if e.holds(stageQuiet) {
		e.quiet()
	}
}

// next returns the next turn of a LATER.
func (e *explanation) next() *Next {
	if e.record.Outcome != Later {
		return nil
	}
	return &Next{Turn: e.record.Turn + 1, At: instant(e.record.DeferUntil), Digest: e.record.DigestKey}
}
