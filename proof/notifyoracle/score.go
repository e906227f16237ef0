package notifyoracle

import (
	"math"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// ruleUntil is the instant of the rule's strategy.
func (t *turn) ruleUntil() engine.Millis {
	switch t.rule.Action.Strategy {
	case "fixed_delay_15m":
		return t.now + 15*minute
	case "next_hour":
		return t.zone.nextPass(t.now, fullHours...)
	case "likely_hour":
		return t.likelyHour()
	case "next_quiet_end":
		if len(t.prefs.Quiet) > 0 {
			return t.zone.nextQuietEnd(t.prefs.Quiet, t.now)
		}
	}
	return t.zone.nextPass(t.now, t.set.Morning)
}

// ruleWaits reports whether a rule's LATER holds the event: one that waits for a likely hour
// holds nothing where it has none to wait for.
func (t *turn) ruleWaits() bool {
	return t.rule.says(notify.Later) && (t.rule.Action.Strategy != "likely_hour" || t.likelyHour() > t.now)
}

// likelyHour is the start of the hour of UTC at which the user is likely to open, if that is
// known, comes within the rule's bound and is not this hour; else now.
func (t *turn) likelyHour() engine.Millis {
	const hour = 60 * minute
	h := t.asked.Score.Habit
	if h == (notify.Habit{}) {
		return t.now
	}
	for at := (t.now/hour + 1) * hour; at <= t.now+milliseconds(t.rule.Action.Within) && at/hour < t.now/hour+24; at += hour {
		if at.Time().UTC().Hour() == h.Hour {
			return at
		}
	}
	return t.now
}

// decideByScore is stage 10.
func (t *turn) decideByScore(w *waiter) {
	d, p := &t.decision, t.set.Policy.Score
	sum, weights := 0.0, 0.0
	add := func(weight, value float64) { sum, weights = sum+weight*value, weights+weight }
	add(p.Weights.Base, t.policy.Base)
	add(p.Weights.Hint, map[notify.Hint]float64{notify.Critical: 1, notify.High: .75, 0: .5, notify.Medium: .5, notify.Low: .2}[t.event.Hint])
	if p.Taste && t.asked.Score.Known {
		add(p.Weights.Taste, max(0, min(1, (t.asked.Score.Cosine-p.Floor)/(p.Ceiling-p.Floor))))
	}
	age := float64(max(0, t.now-t.event.Timestamp))
	add(p.Weights.Recency, math.Exp2(-age/float64(t.policy.HalfLife)))
	fullest := 0.0
	for i, count := range d.Counts {
		fullest = max(fullest, float64(count)/float64(d.Caps[i]))
	}
	add(p.Weights.Calm, 1-min(1, fullest))
	d.Scored, d.Score = true, max(0, min(1, sum/weights+t.response()))
	switch {
	case d.Score >= p.Now:
		t.sendOn(t.freeAt(w, t.now), notify.ReasonScoreHigh)
	case d.Score < p.Later:
		t.never(notify.ReasonScoreLow)
	case d.Turn > 0:
		t.sendOn(t.freeAt(w, t.now), notify.ReasonScoreDigest)
	default:
		d.Outcome, d.Reasons = notify.Later, []string{notify.ReasonScoreDigest}
	}
}

// response is what the score gains or loses by how the user responds to the type.
func (t *turn) response() float64 {
	const usualWeighs = 10
	h, usual := t.asked.Score.Habit, t.policy.OpenRate
	rate := (h.Opened + usual*usualWeighs) / (h.Delivered + usualWeighs)
	if h == (notify.Habit{}) || rate+usual == 0 {
		return 0
	}
	return t.set.Policy.Score.Response * (rate - usual) / (rate + usual)
}
