package history

import (
	"encoding/json"
	"fmt"
	"strconv"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/proof/notifyoracle"
)

const (
	second = engine.Millis(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// sets is a set in the forms of both sides.
type sets struct {
	theirs *notify.Set
	ours   *notifyoracle.Set
}

// newSet draws a set. The rules travel as a document. A few that are drawn are refused,
// because a rule of them is never reached.
func (w *World) newSet(version string) (s sets, err error) {
	for range 20 {
		if s, err = w.drawSet(version); err == nil {
			return s, nil
		}
	}
	return s, err
}

func (w *World) drawSet(version string) (sets, error) {
	g := w.rng
	rules := make([]any, 0, 6)
	for i := range g.IntN(7) {
		rules = append(rules, w.newRule(i))
	}
	document, err := json.Marshal(map[string]any{"version": version, "policy": map[string]any{}, "rules": rules})
	if err != nil {
		return sets{}, err
	}
	read, faults := rule.Read(document)
	if err := faults.Err(); err != nil {
		return sets{}, fmt.Errorf("a set was drawn that lint refuses: %w\n%s", err, document)
	}
	local := notify.Local{Zone: pick(g, w.places).zone, Morning: pick(g, []quiet.Clock{480, 0, 150, 1439}), Digests: pick(g, digestTimes)}
	set := rule.Compile(read, local)
	set.Policy = w.newPolicy()
	ours, err := notifyoracle.NewSet(set, document)
	return sets{set, ours}, err
}

var digestTimes = [][]quiet.Clock{{540, 1080}, {540, 1080}, {0}, {150}, {120, 180, 1380}}

func (w *World) newPolicy() (p notify.Policy) {
	g := w.rng
	for _, kind := range notify.EventTypes {
		p.Types[kind] = notify.TypePolicy{
			DuplicateWindow: pick(g, []engine.Millis{0, minute, 10 * minute, day, day, 3 * day}),
			ByKeyOnly:       g.chance(6),
			Near:            g.chance(2),
			Capped:          !g.chance(5),
			Cooldown:        pick(g, []engine.Millis{0, 0, 0, second, 10 * minute, 4 * hour, 2 * day}),
			Quiet:           !g.chance(4),
			NowAtLimit:      g.chance(2),
			Base:            g.Float64(),
			HalfLife:        pick(g, []engine.Millis{minute, hour, 6 * hour, day}),
		}
	}
	p.Caps = notify.Caps{1 + g.IntN(4), 1 + g.IntN(6), 1 + g.IntN(12)}
	if g.chance(4) {
		p.Caps = notify.Caps{notify.MaxCap, notify.MaxCap, notify.MaxCap}
	}
	p.Identity = identityPaths
	p.Score = notify.ScorePolicy{
		Weights: notify.Parts{Base: .1 + g.Float64(), Hint: g.Float64(), Taste: g.Float64(), Recency: g.Float64(), Calm: g.Float64()},
		Now:     g.Float64(), Taste: g.chance(2), Floor: .05, Ceiling: .45,
	}
	p.Score.Later = p.Score.Now * g.Float64()
	if w.fresh {
		w.wish(&p)
	}
	return p
}

func (w *World) newRule(i int) any {
	g := w.rng
	outcome := pick(g, []string{"NOW", "LATER", "LATER", "NEVER"})
	action := map[string]any{"outcome": outcome, "reason_code": "RULE_" + strconv.Itoa(i)}
	switch outcome {
	case "NOW":
		if g.chance(2) {
			action["bypass"] = pick(g, [][]string{{}, {"caps"}, {"cooldown"}, {"quiet_hours"}, {"caps", "quiet_hours"}, {"caps", "cooldown"}})
		}
	case "LATER":
		strategy := pick(g, []string{"fixed_delay_15m", "next_hour", "next_morning", "next_quiet_end", "digest_window", "digest_window"})
		if w.fresh && g.chance(4) {
			strategy, action["within"] = "likely_hour", pick(g, []string{"1h", "6h", "12h", "24h"})
		}
		action["defer_strategy"] = strategy
		if strategy == "digest_window" && g.chance(2) {
			action["digest_key"] = pick(g, [][]string{{"event_type"}, {"source"}, {"event_type", "source"}, {"dedupe_key", "metadata.order_id"}, {"metadata.amount", "metadata.vip", "priority_hint"}, {"channel"}, {"metadata.order", "title"}})
		}
		if strategy == "digest_window" && w.fresh && g.chance(6) {
			action["digest_key"] = []string{"user_id"}
		}
	}
	if outcome != "NEVER" && g.chance(4) {
		var names []string
		for _, c := range g.channels(1) {
			names = append(names, c.String())
		}
		action["channel_override"] = names
	}
	if w.fresh && outcome == "NOW" && g.chance(2) {
		action["escalate"], action["channel_override"] = w.newChain()
	}
	return map[string]any{
		"rule_id": g.uuid().String(), "name": "rule " + strconv.Itoa(i), "priority": 10 * (i + 1) * (1 + g.IntN(3)*100 + i),
		"conditions": w.newCondition(1 + g.IntN(3)), "action": action, "enabled": !g.chance(8),
		"version": "1.0.0", "updated_by": "history",
	}
}

func (w *World) newCondition(depth int) any {
	g := w.rng
	if depth <= 1 || g.chance(3) {
		return w.newLeaf()
	}
	op := pick(g, []string{"AND", "OR", "NOT"})
	kids := []any{w.newCondition(depth - 1)}
	for op != "NOT" && g.chance(2) {
		kids = append(kids, w.newCondition(depth-1))
	}
	return map[string]any{"op": op, "rules": kids}
}

// fields are what leaves ask for, with values and whether they are numbers.
var fields = []struct {
	name    string
	numbers bool
	nulls   bool // it can be absent
	values  []string
}{
	{"event_type", false, false, []string{`"PROMO"`, `"UPDATE"`, `"SECURITY"`, `"MESSAGE"`, `"REMINDER"`}},
	{"event_type", false, false, []string{`"DIGEST"`, `"ALERT"`, `"SYSTEM"`, `"PROMO"`}},
	{"priority_hint", false, true, []string{`"CRITICAL"`, `"HIGH"`, `"LOW"`}},
	{"source", false, false, []string{`"shop"`, `"fraud"`}},
	{"channel", false, false, []string{`"push"`, `"email"`, `"sms"`}},
	{"dedupe_key", false, true, []string{`"k1"`, `"k2"`}},
	{"title", false, false, []string{`"Price drop"`, `"Summer sale"`, `"Order 1001 shipped"`}},
	{"message", false, true, []string{`"See you at eight?"`}},
	{"metadata.amount", true, true, []string{`12.5`, `100`, `0.10`, `9007199254740992`, `1.25e1`}},
	{"metadata.amount", false, true, []string{`"12.5"`, `"x"`}},
	{"metadata.vip", false, true, []string{`true`}},
	{"metadata.order.item.count", true, true, []string{`3`, `10`}},
	{"metadata.order_id", false, true, []string{`"1001"`}},
	{"age_s", true, false, []string{`60`, `0`, `3600`, `0.5`}},
	{"expires_in_s", true, true, []string{`3600`, `60`, `86400`}},
	{"turn", true, false, []string{`0`, `1`, `2`}},
	{"local_hour", true, false, []string{`8`, `22`, `2`, `0`}},
	{"local_weekday", true, false, []string{`6`, `7`, `1`}},
	{"in_quiet_hours", false, false, []string{`true`, `false`}},
	{"count_5m", true, false, []string{`1`, `2`}},
	{"count_1h", true, false, []string{`1`, `3`}},
	{"count_24h", true, false, []string{`2`, `5`}},
	{"count_5m_type", true, false, []string{`1`, `2`}},
	{"count_24h_type", true, false, []string{`1`, `2`}},
	{"count_1h_source", true, false, []string{`1`, `2`}},
	{"count_24h_channel", true, false, []string{`1`, `3`}},
	{"user.plan", false, true, []string{`"pro"`, `"free"`}},
	{"user.age", true, true, []string{`30`, `18.0`}},
	{"since_last_s", true, true, []string{`1`, `300`, `3600`, `86400`}},
	{"since_same_type_s", true, true, []string{`1`, `600`, `86400`}},
}

// asks are what leaves ask of texts, lists and instants.
var asks = []struct {
	operators []string
	fields    []string
	values    []any
}{
	{[]string{"prefix", "contains"}, []string{"title", "message", "metadata.order_id", "user.plan"}, []any{"Order", "order", "10", "e", "Your basket"}},
	{[]string{"contains"}, []string{"metadata.tags", "user.segments"}, []any{"vip", "new", "x", "vi"}},
	{[]string{"before", "after"}, []string{"now", "metadata.at", "user.since"}, []any{"2024-06-01", "2025-06-01T10:00:00+02:00", "2025-06-01T08:00:00.001Z", "2027-01-01"}},
	{[]string{"percent"}, []string{"user_id", "title", "dedupe_key", "metadata.order_id", "user.plan"}, []any{10, 50, 33.3, 99}},
}

// newAsk draws a leaf that asks for a text, a list or an instant.
func (w *World) newAsk() any {
	g := w.rng
	a := pick(g, asks)
	return map[string]any{"field": pick(g, a.fields), "operator": pick(g, a.operators), "value": pick(g, a.values)}
}

func (w *World) newLeaf() any {
	g := w.rng
	if g.chance(4) {
		return w.newAsk()
	}
	f := pick(g, fields)
	operators := []string{"eq", "neq", "in", "not_in"}
	if f.numbers {
		operators = append(operators, "gt", "lt", "gte", "lte", "gt", "gte")
	}
	if f.nulls {
		operators = append(operators, "exists", "not_exists")
	}
	operator := pick(g, operators)
	leaf := map[string]any{"field": f.name, "operator": operator}
	value := func() any {
		if f.nulls && g.chance(4) && operator != "gt" && operator != "lt" && operator != "gte" && operator != "lte" {
			return nil
		}
		return json.RawMessage(pick(g, f.values))
	}
	switch operator {
	case "exists", "not_exists":
	case "in", "not_in":
		list := []any{value()}
		if another := value(); g.chance(2) && fmt.Sprint(another) != fmt.Sprint(list[0]) {
			list = append(list, another)
		}
		leaf["value"] = list
	default:
		leaf["value"] = value()
	}
	return leaf
}
