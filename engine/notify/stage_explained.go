package notify

import "keyfold/engine"

// StageExplanation is what one stage of a decision saw and did.
type StageExplanation struct {
	Number int         `json:"stage"` // its place in [Stages], from 1 on
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

// lastStage returns the place of the stage that ended the decision; where all that is known
// are stages that hold the event, the place behind all.
func (e *explanation) lastStage() int {
	at := e.record.Stage() - 1
	if at < 0 || Stages[at].result != nil && Stages[at].result(e) == StageHolds {
		return len(Stages)
	}
	return at
}

// stages tells each stage.
func (e *explanation) stages() []StageExplanation {
	all := make([]StageExplanation, len(Stages))
	for i := range Stages {
		all[i] = StageExplanation{Number: i + 1, Name: Stages[i].Name, Result: e.result(i)}
		if all[i].Result != StageNotAsked {
			all[i].Saw = e.sentences(forStage, i)
		}
	}
	return all
}

// sentences returns what a stage tells.
func (e *explanation) sentences(of purpose, stage int) []string {
	told := *e
	told.lines, told.purpose = nil, of
	Stages[stage].tell(&told)
	return told.lines
}

// result returns what a stage did. A rule's NOW and a digest go past what was measured.
func (e *explanation) result(stage int) StageResult {
	if stage == e.last {
		return StageEnds
	}
	result := StagePassed
	if s := &Stages[stage]; s.result != nil {
		result = s.result(e)
	}
	if stage > e.last && (e.last != stageRule || result != StageSkipped) {
		return StageNotAsked
	}
	return result
}

// deferred reports on the rule's LATER.
func (e *explanation) deferred() StageResult {
	if e.record.Facts.Strategy != 0 || e.because(ReasonTopicDigest) || e.because(ReasonReplaces) {
		return StageHolds
	}
	return StagePassed
}

func (e *explanation) capped() StageResult {
	result := StagePassed
	for i, at := range e.record.Facts.Frees {
		if held := e.held(at, capReasons[i]); held == StageHolds || result == StagePassed {
			result = held
		}
	}
	for i := range e.record.Facts.Limits {
		if held := e.held(e.record.Facts.Limits[i].Frees, ReasonLimit); held == StageHolds || result == StagePassed {
			result = held
		}
	}
	return result
}

func (e *explanation) cools() StageResult {
	return e.held(e.record.Facts.CooldownEnd, ReasonCooldown)
}

func (e *explanation) rests() StageResult {
	if held := e.held(e.record.Facts.SnoozedTo, ReasonSnoozed); held != StagePassed {
		return held
	}
	return e.held(e.record.Facts.QuietEnd, ReasonQuietHours)
}

// held reports on a measure that would hold the event until an instant; 0: it does not.
func (e *explanation) held(until engine.Millis, reason string) StageResult {
	switch {
	case until == 0:
		return StagePassed
	case e.unless(reason) == "":
		return StageHolds
	default:
		return StageSkipped
	}
}

// scored reports on a score that has not ended the decision.
func (e *explanation) scored() StageResult {
	switch {
	case !e.record.Scored:
		return StageNotAsked
	case e.because(ReasonExpiresFirst):
		return StageHolds
	default:
		return StagePassed
	}
}

// notNow tells why a decision is not NOW.
func (e *explanation) notNow() []string {
	told := []string{}
	if e.record.Outcome == Now {
		return told
	}
	for i := range Stages {
		if result := e.result(i); result == StageHolds || result == StageEnds {
			told = append(told, e.sentences(forNotNow, i)...)
		}
	}
	outcome := *e
	outcome.lines = nil
	outcome.outcome()
	return append(told, outcome.lines...)
}

// next returns the next turn of a LATER.
func (e *explanation) next() *Next {
	if e.record.Outcome != Later {
		return nil
	}
	return &Next{Turn: e.record.Turn + 1, At: instant(e.record.DeferUntil), Digest: e.record.DigestKey}
}
