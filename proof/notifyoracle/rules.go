package notifyoracle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Rule is a rule as its document has it.
type Rule struct {
	ID         uuid.UUID       `json:"rule_id"`
	Priority   int             `json:"priority"`
	Enabled    bool            `json:"enabled"`
	Conditions json.RawMessage `json:"conditions"`
	Action     struct {
		Outcome  string   `json:"outcome"`
		Strategy string   `json:"defer_strategy"`
		Within   string   `json:"within"` // of likely_hour
		Channels []string `json:"channel_override"`
		Reason   string   `json:"reason_code"`
		Bypass   []string `json:"bypass"` // nil: everything
		Key      []string `json:"digest_key"`
		Escalate []Step   `json:"escalate"`
	} `json:"action"`
	tree map[string]any
}

// Step is a step of a rule's chain of channels.
type Step struct {
	After    string   `json:"after"`
	Channels []string `json:"channels"`
	Unless   string   `json:"unless"`
}

// chain is the rule's chain of channels.
func (r *Rule) chain() (all []notify.Escalation) {
	for _, s := range r.Action.Escalate {
		all = append(all, notify.Escalation{
			After: milliseconds(s.After), Channels: channelsOf(s.Channels),
			Unless: map[string]notify.Unless{"": notify.UnlessRead, "read": notify.UnlessRead, "delivered": notify.UnlessDelivered, "never": notify.UnlessNever}[s.Unless],
		})
	}
	return all
}

// readRules reads the enabled rules of a document, by priority.
func readRules(document []byte) ([]Rule, error) {
	var d struct {
		Rules []Rule `json:"rules"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	rules := slices.DeleteFunc(d.Rules, func(r Rule) bool { return !r.Enabled })
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Priority, b.Priority) })
	for i := range rules {
		tree, err := readValue(rules[i].Conditions)
		if err != nil {
			return nil, err
		}
		rules[i].tree, _ = tree.(map[string]any)
	}
	return rules, nil
}

// readValue reads a JSON value: nil, bool, string, Number, []any or map[string]any.
func readValue(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return withNumbers(v), nil
}

func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, _ := new(big.Rat).SetString(v.String())
		return Number{v.String(), r}
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNumbers(v[name])
		}
	}
	return v
}

// says reports whether a rule has matched and says an outcome.
func (r *Rule) says(o notify.Outcome) bool { return r != nil && r.Action.Outcome == o.String() }

// bypasses reports whether a stage does not hold what the rule sends.
func (r *Rule) bypasses(stage string) bool {
	return r.says(notify.Now) && (r.Action.Bypass == nil || slices.Contains(r.Action.Bypass, stage))
}

// matchRule returns the first rule that matches and is not spent, nil where there is none.
func (t *turn) matchRule() *Rule {
	for i := range t.set.Rules {
		r := &t.set.Rules[i]
		if !slices.Contains(t.decision.Spent, r.ID) && t.matches(r, r.tree) {
			return r
		}
	}
	return nil
}

func (t *turn) matches(r *Rule, node map[string]any) bool {
	if always, _ := node["always"].(bool); always {
		return true
	}
	op, _ := node["op"].(string)
	kids, _ := node["rules"].([]any)
	match := func(kid any) bool { return t.matches(r, kid.(map[string]any)) }
	switch op {
	case "AND":
		return !slices.ContainsFunc(kids, func(kid any) bool { return !match(kid) })
	case "OR":
		return slices.ContainsFunc(kids, match)
	case "NOT":
		return !match(kids[0])
	}
	have, operator, value := t.field(node["field"].(string)), node["operator"].(string), node["value"]
	if operator == "percent" {
		text, ok := have.(string)
		return ok && chosen(r.ID, text, value.(Number).Rat)
	}
	return compare(have, operator, value)
}

// compare applies an operator. An absent field is null; null equals null.
func compare(have any, operator string, want any) bool {
	wants, list := want.([]any)
	if !list {
		wants = []any{want}
	}
	among := func() bool { return slices.ContainsFunc(wants, func(w any) bool { return equal(have, w) }) }
	switch operator {
	case "exists":
		return have != nil
	case "not_exists":
		return have == nil
	case "eq", "in":
		return among()
	case "neq", "not_in":
		return !among()
	}
	if asks, known := asks[operator]; known {
		text, ok := want.(string)
		return ok && asks(have, text)
	}
	holds, known := orders[operator]
	if !known {
		panic("the oracle has no operator " + operator)
	}
	x, ok1 := have.(Number)
	y, ok2 := want.(Number)
	return ok1 && ok2 && holds(x.Cmp(y.Rat))
}

// orders are the operators that compare two numbers.
var orders = map[string]func(order int) bool{
	"gt":  func(order int) bool { return order > 0 },
	"gte": func(order int) bool { return order >= 0 },
	"lt":  func(order int) bool { return order < 0 },
	"lte": func(order int) bool { return order <= 0 },
}

func equal(have, want any) bool {
	switch have := have.(type) {
	case nil:
		return want == nil
	case Number:
		n, ok := want.(Number)
		return ok && have.Cmp(n.Rat) == 0
	case []notify.Channel: // any of them
		return slices.ContainsFunc(have, func(c notify.Channel) bool { return c.String() == want })
	case string, bool:
		return have == want
	}
	return false
}

// field returns what a rule sees under a name, nil where it is absent.
func (t *turn) field(name string) any {
	if path, ok := strings.CutPrefix(name, "user."); ok {
		return lookUp(t.attributes(), strings.Split(path, "."))
	}
	if v, known := t.event.field(name); known {
		return v
	}
	if of, ok := strings.CutPrefix(name, "count_"); ok && strings.Count(of, "_") == 1 {
		return t.countOf(of)
	}
	if name == "now" {
		return t.now.Time()
	}
	return t.number(name)
}

// field returns what the event has under a name, nil where it is absent. It is not known
// where the name is of something else.
func (e Event) field(name string) (v any, known bool) {
	if path, ok := strings.CutPrefix(name, "metadata."); ok {
		return lookUp(e.Object, strings.Split(path, ".")), true
	}
	switch name {
	case "event_type":
		return e.Type.String(), true
	case "priority_hint":
		return text(e.Hint.String()), true
	case "source":
		return e.Source, true
	case "channel":
		return e.Channels, true
	case "user_id":
		return e.UserID, true
	case "dedupe_key":
		return text(e.DedupeKey), true
	case "title":
		return e.Title, true
	case "message":
		return text(e.Message), true
	}
	return nil, false
}

// number returns what a rule sees under the name of a figure: all are as of now, before
// this decision.
func (t *turn) number(name string) any {
	weekday, minuteOfDay := t.zone.local(t.now)
	switch name {
	case "age_s":
		return seconds(max(0, int64(t.now-t.event.Timestamp)))
	case "expires_in_s":
		if t.event.ExpiresAt == 0 {
			return nil
		}
		return seconds(int64(t.event.ExpiresAt - t.now))
	case "turn":
		return whole(t.decision.Turn)
	case "local_hour":
		return whole(minuteOfDay / 60)
	case "local_weekday":
		return whole(weekday)
	case "in_quiet_hours":
		return t.zone.quiet(t.prefs.Quiet, t.now)
	case "count_5m":
		return whole(t.decision.Counts[0])
	case "count_1h":
		return whole(t.decision.Counts[1])
	case "count_24h":
		return whole(t.decision.Counts[2])
	case "since_last_s":
		if len(t.state.Sends) == 0 {
			return nil
		}
		return t.since(int64(t.state.Sends[len(t.state.Sends)-1]))
	case "since_same_type_s":
		return t.since(int64(t.state.LastSend[t.event.Type]))
	}
	panic("unknown field " + name)
}

// since returns the seconds since a send, nil where there is none within the horizon.
func (t *turn) since(at int64) any {
	if at == 0 || at <= int64(t.now-t.decision.Horizon) {
		return nil
	}
	return seconds(int64(t.now) - at)
}

func seconds(ms int64) any {
	r := big.NewRat(ms, 1000)
	return Number{r.FloatString(3), r}
}

func whole(n int) any { return Number{strconv.Itoa(n), big.NewRat(int64(n), 1)} }

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func lookUp(v any, path []string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// keyText is the text of a field in keys: "" where it is absent.
func (e Event) keyText(name string) string {
	v, _ := e.field(name)
	switch v := v.(type) {
	case string:
		return v
	case Number:
		return v.Text
	case bool:
		return strconv.FormatBool(v)
	case []notify.Channel:
		var names []string
		for _, c := range v {
			names = append(names, c.String())
		}
		return strings.Join(names, ",")
	}
	return ""
}

// digestKey joins the values of the rule's fields.
func (t *turn) digestKey() string {
	if t.rule == nil || !t.rule.says(notify.Later) || t.rule.Action.Key == nil {
		return t.event.Type.String()
	}
	var values []string
	for _, name := range t.rule.Action.Key {
		values = append(values, t.event.keyText(name))
	}
	// Within a value the sign between values, and the one before it, have a backslash
	// before them. A key over 256 bytes is its SHA-256 behind what no other key begins with.
	var key []byte
	for i, value := range values {
		if i > 0 {
			key = append(key, '|')
		}
		for _, b := range []byte(value) {
			if b == '|' || b == '\\' {
				key = append(key, '\\')
			}
			key = append(key, b)
		}
	}
	if len(key) > 256 {
		return fmt.Sprintf(`\#%x`, sha256.Sum256(key))
	}
	return string(key)
}

// channels are those that a rule names.
func (r *Rule) channels() []notify.Channel { return channelsOf(r.Action.Channels) }

func channelsOf(names []string) (all []notify.Channel) {
	for _, name := range names {
		all = append(all, notify.ParseChannel(name))
	}
	return all
}
