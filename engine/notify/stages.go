package notify

import (
	"slices"

	"github.com/google/uuid"
)

// Stage is one step of a decision.
type Stage struct {
	Name string
	// Reasons are the reasons of a record that the stage decides, as the first one:
	// see [Record.Stage].
	Reasons []string

	// decide reports whether the stage has ended the decision.
	decide func(*decision) bool
	// tell says what the stage saw.
	tell func(*explanation)
	// result is what a stage did that has not ended the decision. Without it the stage let
	// the event through.
	result func(*explanation) StageResult
}

// RuleReason stands for the reasons that rules have of their own.
const RuleReason = "the rule's reason"

// Places of stages in Stages.
const (
	stageRules = 5
	stageRule  = 6
)

// Stages are the stages of a decision. [Decide] and [DecideDigest] run them in their order,
// [Explain] tells them, and docs/NOTIFICATIONS.md describes them. The first one that ends the
// decision counts. Those from the rule's LATER to quiet hours collect reasons to wait.
var Stages = []Stage{
	{
		Name: "erasure, expiry, cancellation", Reasons: []string{ReasonUserErased, ReasonExpired, ReasonCancelled, ReasonReplaced},
		decide: (*decision).over, tell: (*explanation).over,
	},
	{
		Name: "mutes and channels", Reasons: []string{ReasonMuted, ReasonPaused, ReasonNoChannel},
		decide: (*decision).unwanted, tell: (*explanation).unwanted,
	},
	{
		Name: "follow-up", Reasons: []string{ReasonRead, ReasonDelivered},
		decide: (*decision).readBefore, tell: (*explanation).readBefore,
	},
	{
		Name: "duplicate", Reasons: []string{ReasonDuplicate},
		decide: (*decision).repeats, tell: (*explanation).repeats,
	},
	{
		Name: "near duplicate", Reasons: []string{ReasonNearDuplicate},
		decide: (*decision).nearlyRepeats, tell: (*explanation).nearlyRepeats,
	},
	stageRules: {
		Name: "rules", Reasons: []string{RuleReason, ReasonNoChannel},
		decide: (*decision).ruledOut, tell: (*explanation).rules,
	},
	stageRule: {
		Name: "the rule's NOW or LATER, digests", Reasons: []string{RuleReason, ReasonDigested, ReasonTopicDigest, ReasonReplaces},
		decide: (*decision).ruled, tell: (*explanation).rule, result: (*explanation).deferred,
	},
	{
		Name: "caps and limits", Reasons: append(capReasons[:len(capReasons):len(capReasons)], ReasonLimit),
		decide: (*decision).capped, tell: (*explanation).caps, result: (*explanation).capped,
	},
	{
		Name: "cooldown", Reasons: []string{ReasonCooldown},
		decide: (*decision).cools, tell: (*explanation).cooldown, result: (*explanation).cools,
	},
	{
		Name: "quiet hours", Reasons: []string{ReasonSnoozed, ReasonQuietHours},
		decide: (*decision).rests, tell: (*explanation).quiet, result: (*explanation).rests,
	},
	{
		Name: "score", Reasons: []string{ReasonScoreHigh, ReasonScoreDigest, ReasonScoreLow, ReasonEscalated, ReasonOtherChannel},
		decide: (*decision).weigh, tell: (*explanation).score, result: (*explanation).scored,
	},
	{
		Name: "limit of deferrals", Reasons: []string{ReasonDeferLimit},
		decide: (*decision).limited, tell: (*explanation).limit,
	},
	{
		Name: "expiry before the deferral ends", Reasons: []string{ReasonExpiresFirst},
		decide: (*decision).expiresFirst, tell: (*explanation).expiresFirst,
	},
}

// Reasons lists the reasons that are keyfold's own: no rule may use them.
var Reasons = func() (all []string) {
	for _, s := range Stages {
		for _, reason := range s.Reasons {
			if reason != RuleReason && !slices.Contains(all, reason) {
				all = append(all, reason)
			}
		}
	}
	return all
}()

// Capped reports whether caps or limits are a reason why the event is not sent now.
func (r *Record) Capped() bool {
	return r.Outcome != Now && slices.ContainsFunc(r.Reasons, func(reason string) bool {
		return reason == ReasonLimit || slices.Contains(capReasons[:], reason)
	})
}

// Stage returns the number of the stage that made the decision, from 1 on; of one that waits,
// of the first stage that holds it. 0: no stage of this version has the record's reason.
//
// No ledger stores it: the first reason, the outcome and whether a rule matched say which
// one it was, also of older records and of those of erased users.
func (r *Record) Stage() int {
	if len(r.Reasons) == 0 {
		return 0
	}
	reason, ofRule := r.Reasons[0], r.RuleID != uuid.Nil
	own := slices.Contains(Reasons, reason)
	switch {
	case own && (reason != ReasonNoChannel || !ofRule):
		return 1 + slices.IndexFunc(Stages, func(s Stage) bool { return slices.Contains(s.Reasons, reason) })
	case !ofRule:
		return 0
	case r.Outcome == Never:
		return stageRules + 1
	default:
		return stageRule + 1
	}
}
