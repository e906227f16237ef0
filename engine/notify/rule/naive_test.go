package rule

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// naive walks a condition of a rule as it stands in JSON and reads the event by the names
// of its fields: it shares nothing with the compiler.
func naive(id string, c map[string]any, in *notify.Input) bool {
	if c["always"] != nil {
		return true
	}
	switch c["op"] {
	case "AND":
		for _, kid := range c["rules"].([]any) {
			if !naive(id, kid.(map[string]any), in) {
				return false
			}
		}
		return true
	case "OR":
		for _, kid := range c["rules"].([]any) {
			if naive(id, kid.(map[string]any), in) {
				return true
			}
		}
		return false
	case "NOT":
		return !naive(id, c["rules"].([]any)[0].(map[string]any), in)
	}
	found := naiveValue(c["field"].(string), in)
	value, _ := c["value"].([]any)
	if c["operator"] == "eq" || c["operator"] == "neq" {
		value = []any{c["value"]}
	}
	switch c["operator"] {
	case "eq", "in":
		return naiveAny(found, value)
	case "neq", "not_in":
		return !naiveAny(found, value)
	case "exists":
		return found != nil
	case "not_exists":
		return found == nil
	case "prefix", "contains", "before", "after", "percent":
		return naiveText(id, c["operator"].(string), found, c["value"])
	}
	number, ok := found.(*big.Rat)
	if !ok {
		return false
	}
	want, _ := new(big.Rat).SetString(string(c["value"].(json.Number)))
	order := number.Cmp(want)
	return map[any]bool{"gt": order > 0, "gte": order >= 0, "lt": order < 0, "lte": order <= 0}[c["operator"]]
}

func naiveText(id, operator string, found, value any) bool {
	if items, ok := found.(naiveItems); ok && operator == "contains" {
		for _, item := range items {
			if item == value {
				return true
			}
		}
		return false
	}
	at := func(v any) (time.Time, bool) {
		if at, ok := v.(time.Time); ok {
			return at, true
		}
		text, _ := v.(string)
		for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				return at, true
			}
		}
		return time.Time{}, false
	}
	switch operator {
	case "before", "after":
		is, ok := at(found)
		limit, _ := at(value)
		return ok && (operator == "before" && is.Before(limit) || operator == "after" && is.After(limit))
	}
	text, ok := found.(string)
	switch {
	case !ok:
		return false
	case operator == "prefix":
		return len(text) >= len(value.(string)) && text[:len(value.(string))] == value
	case operator == "contains":
		return strings.Contains(text, value.(string))
	}
	rule := uuid.MustParse(id)
	share, _ := new(big.Rat).SetString(string(value.(json.Number)))
	hash := xxhash.NewWithSeed(xxhash.Sum64(rule[:]))
	hash.Write([]byte(text))
	return big.NewRat(int64(hash.Sum64()%10_000), 100).Cmp(share) < 0
}

// naiveItems are the texts in a list of the metadata.
type naiveItems []string

// naiveCount counts the messages of a window that have an entry which fits.
func naiveCount(name string, in *notify.Input) any {
	parts := strings.Split(name, "_")
	within, _ := time.ParseDuration(parts[1])
	var messages [][]notify.Sent
	for _, s := range in.Sent {
		if s.Item && len(messages) > 0 {
			messages[len(messages)-1] = append(messages[len(messages)-1], s)
		} else {
			messages = append(messages, []notify.Sent{s})
		}
	}
	fits := func(s notify.Sent) bool {
		switch parts[2] {
		case "type":
			return !s.Follow && s.Type == in.Event.Type
		case "source":
			return !s.Follow && s.Source == notify.SourceHash(in.Event.Source)
		}
		for _, c := range in.Event.Channels {
			if s.Channels.Has(c) {
				return true
			}
		}
		return false
	}
	n := int64(0)
	for _, message := range messages {
		for _, s := range message {
			if s.At > in.Now-engine.Millis(within.Milliseconds()) && fits(s) {
				n++
				break
			}
		}
	}
	return big.NewRat(n, 1)
}

func naiveAny(found any, values []any) bool {
	if list, ok := found.([]string); ok {
		for _, item := range list {
			if naiveAny(item, values) {
				return true
			}
		}
		return false
	}
	for _, v := range values {
		if n, ok := v.(json.Number); ok {
			rat, _ := new(big.Rat).SetString(string(n))
			if f, ok := found.(*big.Rat); ok && f.Cmp(rat) == 0 {
				return true
			}
		} else if _, ok := found.(*big.Rat); ok {
			continue
		} else if _, ok := found.(naiveItems); !ok && found == v {
			return true
		}
	}
	return false
}

// naiveValue returns nil for null, else a bool, a string, a list of strings, a *big.Rat, a
// time.Time, naiveItems or a struct{}.
func naiveValue(name string, in *notify.Input) any {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	number := func(n, unit int64) any { return big.NewRat(n, unit) }
	since := func(at engine.Millis) any {
		if at < 0 {
			return nil
		}
		return number(int64(at), 1000)
	}
	e := in.Event
	switch name {
	case "event_type":
		return e.Type.String()
	case "priority_hint":
		return text(e.Hint.String())
	case "source":
		return e.Source
	case "channel":
		return namesOf(e.Channels)
	case "user_id":
		return e.UserID
	case "dedupe_key":
		return text(e.DedupeKey)
	case "title":
		return e.Title
	case "message":
		return text(e.Message)
	case "age_s":
		return number(int64(in.AgeMs), 1000)
	case "expires_in_s":
		if e.ExpiresAt == 0 {
			return nil
		}
		return number(int64(in.ExpiresMs), 1000)
	case "turn":
		return number(int64(in.Turn), 1)
	case "local_hour":
		return number(int64(in.Hour), 1)
	case "local_weekday":
		return number(int64(in.Weekday), 1)
	case "in_quiet_hours":
		return in.InQuiet
	case "count_5m":
		return number(int64(in.Counts[0]), 1)
	case "count_1h":
		return number(int64(in.Counts[1]), 1)
	case "count_24h":
		return number(int64(in.Counts[2]), 1)
	case "since_last_s":
		return since(in.SinceLast)
	case "since_same_type_s":
		return since(in.SinceSame)
	case "now":
		return in.Now.Time()
	}
	if strings.HasPrefix(name, "count_") {
		return naiveCount(name, in)
	}
	values := e.Metadata
	if path, ok := strings.CutPrefix(name, "user."); ok {
		values, name = in.Attributes, "metadata."+path
	}
	for _, m := range values {
		if "metadata."+m.Path != name {
			continue
		}
		switch m.Value.Kind {
		case notify.Bool:
			return m.Value.Bool
		case notify.Number:
			r, _ := new(big.Rat).SetString(m.Value.Text)
			return r
		case notify.String:
			return m.Value.Text
		case notify.Array:
			return naiveItems(m.Value.Items)
		case notify.Object:
			return struct{}{}
		}
	}
	return nil
}

// Pools of values that meet each other often.
var (
	poolTexts   = []string{"a", "b", "c", "1", "true", "ab", "2026-12-24", "2026-12-24T00:00:00.001Z", "2026-12-24T01:00:00+01:00", "2026-12-32"}
	poolTimes   = []string{"2026-12-24", "2026-12-24T00:00:00Z", "2026-12-24T00:00:00.001Z", "2026-12-24T00:59:59.999+01:00"}
	poolShares  = []string{"0", "10", "50", "99.99", "100", "1e1"}
	poolNumbers = []string{"0", "1", "1.0", "1.5", "15e-1", "-2", "2", "7", "1000", "0.0005", "9007199254740993", "1e30"}
	poolPaths   = []string{"x", "y.z", "a.b.c.d"}
)

func drawNumber(t *rapid.T) json.Number {
	return json.Number(rapid.SampledFrom(poolNumbers).Draw(t, "number"))
}

func drawConstant(t *rapid.T, f *field) any {
	if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return nil
	}
	switch {
	case f.words != nil:
		return rapid.SampledFrom(f.words).Draw(t, "word")
	case f.set != nil:
		return rapid.Bool().Draw(t, "bool")
	case f.text != nil:
		return rapid.SampledFrom(poolTexts).Draw(t, "text")
	case f.bounds[1] > 0:
		return json.Number(rapid.SampledFrom([]string{"1", "2", "1.0", "1.5", "2e0"}).Draw(t, "small"))
	case f.number != nil:
		return drawNumber(t)
	}
	return rapid.SampledFrom([]any{true, false, "a", "1", json.Number("1"), json.Number("1.5"), json.Number("9007199254740993")}).Draw(t, "any")
}

func drawCondition(t *rapid.T, depth int) map[string]any {
	if rapid.IntRange(0, 20).Draw(t, "always") == 0 {
		return map[string]any{"always": true}
	}
	if op := rapid.SampledFrom([]string{"", "", "AND", "OR", "NOT"}).Draw(t, "op"); op != "" && depth > 1 {
		kids := []any{drawCondition(t, depth-1)}
		for op != "NOT" && rapid.Bool().Draw(t, "more") && len(kids) < 4 {
			kids = append(kids, drawCondition(t, depth-1))
		}
		return map[string]any{"op": op, "rules": kids}
	}
	names := make([]string, 0, len(fields)+len(poolPaths))
	for i := range fields {
		names = append(names, fields[i].name)
	}
	for _, path := range poolPaths {
		names = append(names, "metadata."+path, "user."+path)
	}
	f := fieldOf(rapid.SampledFrom(names).Draw(t, "field"))
	operator := rapid.SampledFrom(operatorsOf(f)).Draw(t, "operator")
	c := map[string]any{"field": f.name, "operator": operator}
	switch operator {
	case "exists", "not_exists":
	case "gt", "lt", "gte", "lte":
		c["value"] = drawNumber(t)
	case "prefix", "contains":
		c["value"] = rapid.SampledFrom(poolTexts).Draw(t, "part")
	case "before", "after":
		c["value"] = rapid.SampledFrom(poolTimes).Draw(t, "instant")
	case "percent":
		c["value"] = json.Number(rapid.SampledFrom(poolShares).Draw(t, "share"))
	case "in", "not_in":
		values := []any{}
		for range rapid.IntRange(1, 4).Draw(t, "values") {
			values = append(values, drawConstant(t, f))
		}
		c["value"] = values
	default:
		c["value"] = drawConstant(t, f)
	}
	return c
}

// drawValues draws metadata or attributes.
func drawValues(t *rapid.T) (values notify.Metadata) {
	text := rapid.SampledFrom(poolTexts)
	for _, path := range poolPaths {
		kind := notify.Kind(rapid.IntRange(int(notify.Absent), int(notify.Array)).Draw(t, "kind"))
		v := notify.Value{Kind: kind}
		switch kind {
		case notify.Absent:
			continue
		case notify.Bool:
			v.Bool = rapid.Bool().Draw(t, "bool")
		case notify.String:
			v.Text = text.Draw(t, "value")
		case notify.Number:
			v.Text = string(drawNumber(t))
			v.Number, _ = notify.ParseDecimal(v.Text)
		case notify.Array:
			v.Items = rapid.SliceOfN(text, 0, 3).Draw(t, "items")
		}
		values = append(values, notify.Member{Path: path, Value: v})
	}
	return values
}

// drawSent draws sends of which many are like the event. The items of a message have its
// instant.
func drawSent(t *rapid.T, e *notify.Notification, now engine.Millis) (sent []notify.Sent) {
	agos := []engine.Millis{0, 1, 299_999, 300_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000}
	n := rapid.IntRange(0, 6).Draw(t, "sends")
	at := rapid.SliceOfN(rapid.SampledFrom(agos), n, n).Draw(t, "agos")
	slices.Sort(at)
	slices.Reverse(at)
	for i, ago := range at {
		s := notify.Sent{
			At: now - ago, Type: rapid.SampledFrom([]notify.EventType{e.Type, notify.Promo}).Draw(t, "type"),
			Source:   notify.SourceHash(rapid.SampledFrom([]string{e.Source, "x"}).Draw(t, "source")),
			Channels: notify.SetOf(rapid.SliceOfNDistinct(rapid.SampledFrom(notify.Channels), 1, 2, rapid.ID).Draw(t, "channels")),
			Follow:   rapid.IntRange(0, 3).Draw(t, "follow") == 0,
		}
		if s.Item = i > 0 && rapid.Bool().Draw(t, "item"); s.Item {
			s.At = sent[i-1].At
		}
		sent = append(sent, s)
	}
	return sent
}

func drawInput(t *rapid.T) *notify.Input {
	ms := rapid.SampledFrom([]engine.Millis{0, 1, 500, 999, 1000, 1001, 1500, 2000, 7000, 1_000_000})
	since := rapid.OneOf(rapid.Just(engine.Millis(-1)), ms)
	text := rapid.SampledFrom(poolTexts)
	optional := rapid.OneOf(rapid.Just(""), text)
	e := &notify.Notification{
		UserID: text.Draw(t, "user"), Type: rapid.SampledFrom(notify.EventTypes).Draw(t, "type"), Title: text.Draw(t, "title"),
		Message: optional.Draw(t, "message"), Source: text.Draw(t, "source"), DedupeKey: optional.Draw(t, "key"),
		Hint:      notify.Hint(rapid.IntRange(0, 4).Draw(t, "hint")),
		Channels:  rapid.SliceOfNDistinct(rapid.SampledFrom(notify.Channels), 1, 4, rapid.ID).Draw(t, "channels"),
		ExpiresAt: rapid.SampledFrom([]engine.Millis{0, 1}).Draw(t, "expires"),
	}
	e.Metadata = drawValues(t)
	count := rapid.IntRange(0, 3)
	now := engine.MillisOf(time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)) + engine.Millis(rapid.IntRange(-1, 1).Draw(t, "now"))
	return &notify.Input{
		Now: now, Sent: drawSent(t, e, now), Attributes: drawValues(t),
		Event: e, Turn: rapid.IntRange(0, 2).Draw(t, "turn"), AgeMs: ms.Draw(t, "age"), ExpiresMs: ms.Draw(t, "until"),
		Hour: rapid.IntRange(0, 23).Draw(t, "hour"), Weekday: rapid.IntRange(1, 7).Draw(t, "weekday"), InQuiet: rapid.Bool().Draw(t, "quiet"),
		Counts:    [3]int{count.Draw(t, "5m"), count.Draw(t, "1h"), count.Draw(t, "24h")},
		SinceLast: since.Draw(t, "last"), SinceSame: since.Draw(t, "same"),
	}
}

// ruleOf is a rule in JSON.
func ruleOf(number, priority int, conditions any, outcome string) map[string]any {
	action := map[string]any{"outcome": outcome, "reason_code": "R_" + strings.Repeat("X", number%3)}
	if outcome == "LATER" {
		action["defer_strategy"] = "next_hour"
	}
	return map[string]any{
		"rule_id": uuid.NewSHA1(uuid.Nil, []byte{byte(number), byte(number >> 8)}).String(), "name": "rule " + string(rune('A'+number)),
		"priority": priority, "conditions": conditions, "action": action, "version": "1.0.0",
	}
}

func documentOf(t testing.TB, rules ...map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"version": "test", "rules": rules})
	must.OK(t, err)
	return text
}

// compiled reads and compiles rules that have no fault. Warnings are passed over.
func compiled(t testing.TB, rules ...map[string]any) *Program {
	text := documentOf(t, rules...)
	d, faults := Read(text)
	if d == nil {
		t.Fatalf("%v\n%s", faults.Err(), text)
	}
	return Compile(d, notify.Local{}).Rules.(*Program)
}

func TestTheCompiledMatchEqualsANaiveWalk(t *testing.T) {
	matches := 0
	rapid.Check(t, func(r *rapid.T) {
		c := drawCondition(r, 4)
		rule := ruleOf(1, 1, c, "NOW")
		p := compiled(t, rule)
		for range 10 {
			in := drawInput(r)
			got, want := p.Match(in, nil) != nil, naive(rule["rule_id"].(string), c, in)
			if got != want {
				text, _ := json.Marshal(c)
				r.Fatalf("the program says %t, the walk %t: %s for %+v, %+v", got, want, text, in, in.Event)
			}
			if want {
				matches++
			}
		}
	})
	if matches == 0 {
		t.Error("no condition matched: the test compares nothing")
	}
}

func TestTheFirstRuleByPriorityMatches(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := drawInput(r)
		order := rapid.Permutation([]int{5, 10, 15, 20, 25}).Draw(r, "priorities")
		var rules []map[string]any
		var spent []uuid.UUID
		want, best := "", 1000
		for i, priority := range order {
			c := drawCondition(r, 2)
			rule := ruleOf(i, priority, c, "LATER")
			enabled := rapid.IntRange(0, 3).Draw(r, "enabled") > 0
			rule["enabled"] = enabled
			rules = append(rules, rule)
			if rapid.IntRange(0, 3).Draw(r, "spent") == 0 {
				spent = append(spent, uuid.MustParse(rule["rule_id"].(string)))
			} else if enabled && priority < best && naive(rule["rule_id"].(string), c, in) {
				want, best = rule["name"].(string), priority
			}
		}
		text := documentOf(t, rules...)
		d, faults := Read(text)
		if d == nil { // the draw put a rule behind unconditional ones
			if !strings.Contains(faults.Err().Error(), "never reached") {
				r.Fatal(faults.Err())
			}
			r.SkipNow()
		}
		got := ""
		if action := Compile(d, notify.Local{}).Rules.Match(in, spent); action != nil {
			got = action.Name
		}
		if got != want {
			r.Fatalf("matched %q, want %q: %s for %+v %+v", got, want, text, in, in.Event)
		}
	})
}
