package notifyoracle

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Chains have the steps 1 to 4. The follow-up that a digest has is always of step 5.
const (
	lastStep   = 4
	digestStep = 5
)

// wasRead is the stage READ of follow-ups: what was reported of the steps before ends them.
// What was read was delivered.
func (t *turn) wasRead() bool {
	const read = notify.WasOpened | notify.WasClicked | notify.WasDismissed
	unless, reported := t.event.Follows.Unless, t.asked.Reported
	switch {
	case unless == notify.UnlessNever:
	case reported&read != 0:
		return t.never(notify.ReasonRead)
	case unless == notify.UnlessDelivered && reported&notify.WasDelivered != 0:
		return t.never(notify.ReasonDelivered)
	}
	return false
}

// follow makes the follow-ups of a NOW: of the chain, then of the digest. A step that has no
// channel is followed as one that was sent. Items leave none.
func (t *turn) follow() {
	d, step := &t.decision, 0
	if t.event.Follows != nil {
		step = t.event.Follows.Step
	}
	skipped := step > 0 && d.Outcome == notify.Never && d.Reasons[0] == notify.ReasonNoChannel
	if d.Outcome != notify.Now && !skipped || t.item {
		return
	}
	chain := t.chain()
	switch {
	case step >= lastStep:
	case len(chain) > 0:
		t.nextOf(chain, step)
	case t.policy.OthersLater && len(d.Held) > 0:
		t.followUp(notify.FollowUp{
			Step: step + 1, Channels: d.Held, At: t.heldUntil(), Unless: notify.UnlessRead, Reason: notify.ReasonOtherChannel,
			Used: t.usedBefore(),
		})
	}
	if later := t.digestToo(); step == 0 && len(later) > 0 {
		at := t.anyAwake(later, t.nextDigest())
		t.followUp(notify.FollowUp{
			Step: digestStep, Channels: later, At: at, Unless: notify.UnlessNever, Reason: notify.ReasonDigested, Digest: t.wish.topic,
		})
	}
}

// nextOf makes the next step of a chain that has a channel which was not used before. The
// times of the steps that are passed over count.
func (t *turn) nextOf(chain []notify.Escalation, step int) {
	at, used := t.now, t.usedBefore()
	for i, s := range chain {
		at += s.After
		var left []notify.Channel
		for _, c := range s.Channels {
			if !slices.Contains(used, c) {
				left = append(left, c)
			}
		}
		if len(left) > 0 {
			t.followUp(notify.FollowUp{
				Step: step + 1, Channels: left, At: at, Unless: s.Unless, Reason: notify.ReasonEscalated, Then: chain[i+1:], Used: used,
			})
			return
		}
	}
}

// usedBefore are the channels by which the event went, now and before, and those that its
// digest has, in the order of the channels.
func (t *turn) usedBefore() (used []notify.Channel) {
	for _, c := range notify.Channels {
		before := t.event.Follows != nil && slices.Contains(t.event.Follows.Used, c)
		if before || slices.Contains(t.decision.Channels, c) || slices.Contains(t.digestToo(), c) {
			used = append(used, c)
		}
	}
	return used
}

// chain is what follows by a rule's NOW, of a follow-up by its own.
func (t *turn) chain() []notify.Escalation {
	if f := t.event.Follows; f != nil {
		return f.Then
	}
	if !t.rule.says(notify.Now) {
		return nil
	}
	return t.rule.chain()
}

// heldUntil is when the first of the held channels is free.
func (t *turn) heldUntil() engine.Millis {
	w := t.waiter()
	w.channels = t.decision.Held
	free, _, _ := t.anyFree(w, t.now)
	return free
}

// digestToo are the channels that the user wants in digests beside others that are on.
func (t *turn) digestToo() []notify.Channel {
	if len(t.on) == 0 {
		return nil
	}
	return t.inDigest
}

// followUp keeps a follow-up that is due before it expires.
func (t *turn) followUp(f notify.FollowUp) {
	if t.event.ExpiresAt != 0 && f.At >= t.event.ExpiresAt {
		return
	}
	root := t.event.ID
	if t.event.Follows != nil {
		root = t.event.Follows.Root
	}
	f.EventID = notify.FollowID(root, f.Step)
	t.decision.FollowUps = append(t.decision.FollowUps, f)
}

// Child returns the follow-up of an event.
func Child(parent *notify.Notification, f *notify.FollowUp) *notify.Notification {
	child := *parent
	root := parent.ID
	if parent.Follows != nil {
		root = parent.Follows.Root
	}
	child.ID, child.Channels, child.Replaces = f.EventID, slices.Clone(f.Channels), notify.Replaces{}
	child.Follows = &notify.Follows{Root: root, Step: f.Step, Unless: f.Unless, Reason: f.Reason, Then: f.Then, Used: f.Used}
	return &child
}

// StepsBefore are the event and the steps whose reports end a follow-up.
func StepsBefore(f *notify.Follows) (ids []uuid.UUID) {
	ids = append(ids, f.Root)
	for step := 1; step < f.Step && step <= lastStep; step++ {
		ids = append(ids, notify.FollowID(f.Root, step))
	}
	return ids
}
