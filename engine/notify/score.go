package notify

import "math"

// weigh is the stage of the score, for an event that nothing holds: at least the
// threshold for now it is sent, at least the one for later it waits for a digest,
// but only on arrival, and below it is never sent.
//
// The score is the weighted mean of those of its parts that are available. Each is
// between 0 and 1: the type's base; the caller's hint; taste, the cosine of text and
// user between the policy's floor and ceiling; recency, which halves in each
// half-life; calm, which falls as the fullest window fills. Then comes what the policy lets
// the user's responses add or take.
func (d *decision) weigh() bool {
	if len(d.collected) > 0 || d.wait.outcome != 0 {
		return false
	}
	if d.event.Follows != nil {
		return d.sends(d.event.Follows.Reason)
	}
	r, policy := d.record, &d.set.Policy.Score
	r.Scored, r.Score = true, d.score()
	switch {
	case r.Score >= policy.Now:
		return d.sends(ReasonScoreHigh)
	case r.Score < policy.Later:
		return d.never(ReasonScoreLow)
	case d.turn.Number > 0:
		return d.sends(ReasonScoreDigest)
	default:
		d.digests([]string{ReasonScoreDigest})
		return false
	}
}

// hints are the parts of a score by hint; 0 is none.
var hints = [hintCount]float64{.5, 1, .75, .5, .2}

func (d *decision) score() float64 {
	policy, f := &d.set.Policy.Score, &d.record.Facts
	w, x := &policy.Weights, &f.Parts
	x.Base, x.Hint, x.Recency, x.Calm = d.policy.Base, hints[d.event.Hint], d.recency(), d.calm()
	sum := w.Base*x.Base + w.Hint*x.Hint
	weights := w.Base + w.Hint
	if policy.Taste && f.Taste.Known {
		f.TasteUsed = true
		x.Taste = min(1, max(0, (f.Taste.Cosine-policy.Floor)/(policy.Ceiling-policy.Floor)))
		sum += w.Taste * x.Taste
		weights += w.Taste
	}
	sum += w.Recency*x.Recency + w.Calm*x.Calm
	weights += w.Recency + w.Calm
	if weights <= 0 {
		return 0
	}
	return min(1, max(0, sum/weights+d.response()))
}

// response returns what how the user responds adds to the score, or takes from it.
func (d *decision) response() float64 {
	f, bound := &d.record.Facts, d.set.Policy.Score.Response
	if h := f.Taste.Habit; bound > 0 && h != (Habit{}) {
		f.Response = bound * h.Lift(d.policy.OpenRate)
	}
	return f.Response
}

// Private reports whether texts of the type never leave keyfold but to the senders.
func (t EventType) Private() bool { return t == Security || t == Message }

// MayEmbed reports whether the event's text may be sent to the embedding API.
func (p *Policy) MayEmbed(e *Notification) bool {
	return p.Types[e.Type].EmbedText && !e.Type.Private()
}

// Text is what is embedded of an event.
func (n *Notification) Text() string {
	if n.Message == "" {
		return n.Title
	}
	return n.Title + ". " + n.Message
}

// recency returns 2^(-age/half-life); without a half-life events do not age.
func (d *decision) recency() float64 {
	age := max(0, d.now-d.event.Timestamp)
	if d.policy.HalfLife <= 0 || age == 0 {
		return 1
	}
	return math.Exp2(-float64(age) / float64(d.policy.HalfLife))
}

// calm returns how much of the fullest window is free.
func (d *decision) calm() float64 {
	f, fullest := &d.record.Facts, 0.0
	for i, limit := range f.Caps {
		if limit > 0 {
			fullest = max(fullest, float64(f.Counts[i])/float64(limit))
		}
	}
	return 1 - min(1, fullest)
}
