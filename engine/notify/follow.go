package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Follows makes an event a follow-up: the content of another one, its root, that was sent
// before on other channels. It has an event_id of its own ([FollowID]) and is decided by
// itself.
type Follows struct {
	Root uuid.UUID `json:"root"`
	Step int       `json:"step"` // from 1 on
	// Unless is what ends it where the root or an earlier step has been reported so.
	Unless Unless       `json:"unless"`
	Reason string       `json:"reason"`         // of its NOW
	Then   []Escalation `json:"then,omitempty"` // steps that follow it
	Used   []Channel    `json:"used,omitempty"` // by which it went before: no step has them again
}

// Before returns the event_ids whose reports can end the follow-up: the root's, and those of
// the chain's earlier steps.
func (f *Follows) Before() []uuid.UUID {
	ids := []uuid.UUID{f.Root}
	for step := 1; step < min(f.Step, digestStep); step++ {
		ids = append(ids, FollowID(f.Root, step))
	}
	return ids
}

// FollowIDs returns the event_ids that follow-ups of an event can have.
func FollowIDs(root uuid.UUID) (ids []uuid.UUID) {
	for step := 1; step <= digestStep; step++ {
		ids = append(ids, FollowID(root, step))
	}
	return ids
}

// FollowUp returns the deferral of a follow-up of an event.
func (n *Notification) FollowUp(f *FollowUp) (Due, error) {
	child := *n
	root := n.ID
	if n.Follows != nil {
		root = n.Follows.Root
	}
	child.ID, child.Channels, child.Replaces = f.EventID, f.Channels, Replaces{}
	child.Follows = &Follows{Root: root, Step: f.Step, Unless: f.Unless, Reason: f.Reason, Then: f.Then, Used: f.Used}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(n.Body, &raw); err != nil {
		return Due{}, fmt.Errorf("event %s: its text is no JSON object: %w", n.ID, err)
	}
	delete(raw, fieldReplaces.String())
	for name, value := range map[string]any{
		fieldEventID.String(): child.ID, fieldChannel.String(): child.Channels, fieldFollows.String(): child.Follows,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return Due{}, err
		}
		raw[name] = text
	}
	var err error
	child.Body, err = json.Marshal(raw)
	due := Due{Event: &child, DueAt: f.At, DigestKey: f.Digest}
	if f.Digest != "" {
		due.Slot = f.At
	}
	return due, err
}

// Escalation is a step of a rule's chain of channels.
type Escalation struct {
	After    engine.Millis `json:"after_ms"` // the NOW before it
	Channels []Channel     `json:"channels"`
	Unless   Unless        `json:"unless"`
}

// Unless is what ends a chain of channels.
type Unless uint8

// The ends of chains.
const (
	UnlessRead      Unless = iota + 1 // it was opened, clicked or dismissed
	UnlessDelivered                   // it was delivered, or read
	UnlessNever                       // nothing
	unlessCount     = iota + 1
)

var unlessNames = [unlessCount]string{"", "read", "delivered", "never"}

// String returns the name in JSON.
func (u Unless) String() string { return nameOf(unlessNames[:], int(u)) }

// MaxSteps bounds a chain of channels.
const MaxSteps = 4

// follows is the name space of ids of follow-ups.
var follows = uuid.MustParse("6b657966-6f6c-4d00-8000-f0110115e900")

// FollowID returns the event_id of a step that follows an event.
func FollowID(root uuid.UUID, step int) uuid.UUID {
	return uuid.NewSHA1(follows, append(root[:], strconv.Itoa(step)...))
}

// Reported is what reports have said of an event: a set of bits.
type Reported uint8

// What was reported.
const (
	WasDelivered Reported = 1 << iota
	WasOpened
	WasClicked
	WasDismissed
	wasRead = WasOpened | WasClicked | WasDismissed
)

// ends reports whether what was reported ends a chain.
func (u Unless) ends(r Reported) bool {
	return u == UnlessRead && r&wasRead != 0 || u == UnlessDelivered && r != 0
}

// digestStep is the step of the follow-up that a user's digest has.
const digestStep = MaxSteps + 1

// follow makes the follow-ups of a NOW: the next step of the chain of channels, and the
// channels that the user wants in a digest. Where a step has no channel left, the next one
// follows all the same.
func (d *decision) follow() {
	r := d.record
	if r.Outcome != Now && (d.event.Follows == nil || r.Outcome != Never || r.Reasons[0] != ReasonNoChannel) {
		return
	}
	if d.item != nil {
		return
	}
	d.addFollowUp(d.nextStep())
	if len(d.inDigest) > 0 && r.Outcome == Now && d.event.Follows == nil {
		d.addFollowUp(FollowUp{
			Step: digestStep, Channels: d.inDigest, At: d.digestSlot(d.inDigest), Unless: UnlessNever, Reason: ReasonDigested, Digest: d.topic.Name,
		})
	}
}

// nextStep returns the next step of the chain of channels; without channels: there is none.
// Each channel is used once: a step that has none left is passed over, after its time.
func (d *decision) nextStep() (f FollowUp) {
	then := d.chain()
	if f.Step = d.step() + 1; f.Step > MaxSteps {
		return FollowUp{}
	}
	f.Used = d.used()
	if len(then) == 0 {
		return d.othersLater(f)
	}
	for f.At = d.now; len(then) > 0 && len(f.Channels) == 0; then = then[1:] {
		f.At, f.Unless, f.Reason = f.At+then[0].After, then[0].Unless, ReasonEscalated
		f.Channels = without(then[0].Channels, f.Used)
	}
	if len(then) > 0 {
		f.Then = then
	}
	return f
}

// chain returns the steps that follow: of a rule's NOW, or of the follow-up itself.
func (d *decision) chain() []Escalation {
	switch {
	case d.event.Follows != nil:
		return d.event.Follows.Then
	case d.says(Now):
		return d.action.Escalate
	default:
		return nil
	}
}

func (d *decision) step() int {
	if d.event.Follows != nil {
		return d.event.Follows.Step
	}
	return 0
}

// used returns the channels that no later step may have: by which it went, and which the
// user's digest has.
func (d *decision) used() (used []Channel) {
	if d.event.Follows != nil {
		used = append(used, d.event.Follows.Used...)
	}
	used = append(used, append(without(d.record.Channels, used), d.inDigest...)...)
	slices.Sort(used)
	return slices.Compact(used)
}

// othersLater makes a follow-up of the channels that are held.
func (d *decision) othersLater(f FollowUp) FollowUp {
	if !d.policy.OthersLater || len(d.held) == 0 || d.record.Outcome != Now {
		return FollowUp{}
	}
	f.Channels, f.Unless, f.Reason = d.held, UnlessRead, ReasonOtherChannel
	for i, c := range d.held {
		if free, _, _ := d.channelFree(c, d.now); i == 0 || free < f.At {
			f.At = free
		}
	}
	return f
}

// without returns the channels that are not among others.
func without(channels, others []Channel) (left []Channel) {
	for _, c := range channels {
		if !contains(others, c) {
			left = append(left, c)
		}
	}
	return left
}

func (d *decision) addFollowUp(f FollowUp) {
	if len(f.Channels) == 0 || d.event.ExpiresAt != 0 && f.At >= d.event.ExpiresAt {
		return
	}
	root := d.event.ID
	if d.event.Follows != nil {
		root = d.event.Follows.Root
	}
	f.EventID = FollowID(root, f.Step)
	d.record.Facts.FollowUps = append(d.record.Facts.FollowUps, f)
}
