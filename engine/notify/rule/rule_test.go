package rule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// object is JSON of a test.
type object = map[string]any

func leaf(field, operator string, value ...any) object {
	c := object{"field": field, "operator": operator}
	if len(value) > 0 {
		c["value"] = value[0]
	}
	return c
}

func all(conditions ...any) object { return object{"op": "AND", "rules": conditions} }

func not(condition any) object { return object{"op": "NOT", "rules": []any{condition}} }

// promo is an event to change.
func promo() *notify.Input {
	return &notify.Input{
		Event: &notify.Notification{
			Type: notify.Promo, UserID: "u", Title: "Sale", Source: "shop", Channels: []notify.Channel{notify.Push, notify.Email},
			Metadata: notify.Metadata{
				{Path: "n", Value: number("1.0")},
				{Path: "s", Value: notify.Value{Kind: notify.String, Text: "1"}},
				{Path: "b", Value: notify.Value{Kind: notify.Bool, Bool: true}},
				{Path: "null", Value: notify.Value{Kind: notify.Null}},
				{Path: "list", Value: notify.Value{Kind: notify.Array}},
				{Path: "tags", Value: notify.Value{Kind: notify.Array, Items: []string{"shoes", "winter"}}},
				{Path: "starts", Value: notify.Value{Kind: notify.String, Text: "2026-12-24T00:00:00+01:00"}},
			},
		},
		Attributes: notify.Metadata{
			{Path: "plan", Value: notify.Value{Kind: notify.String, Text: "pro-yearly"}},
			{Path: "segments", Value: notify.Value{Kind: notify.Array, Items: []string{"vip"}}},
			{Path: "orders", Value: number("12")},
			{Path: "since", Value: notify.Value{Kind: notify.String, Text: "2025-01-31"}},
		},
		Now:   engine.MillisOf(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)),
		AgeMs: 1500, Hour: 12, Weekday: 1, SinceLast: -1, SinceSame: -1,
	}
}

func number(literal string) notify.Value {
	d, err := notify.ParseDecimal(literal)
	if err != nil {
		panic(err)
	}
	return notify.Value{Kind: notify.Number, Text: literal, Number: d}
}

func TestComparisons(t *testing.T) {
	for _, test := range []struct {
		condition object
		want      bool
	}{
		// Absent fields, and metadata that is null, are null.
		{leaf("priority_hint", "eq", nil), true},
		{leaf("priority_hint", "in", []any{"LOW", nil}), true},
		{leaf("priority_hint", "eq", "LOW"), false},
		{leaf("priority_hint", "neq", "LOW"), true},
		{leaf("priority_hint", "neq", nil), false},
		{leaf("priority_hint", "not_in", []any{"LOW", "HIGH"}), true},
		{leaf("priority_hint", "not_in", []any{"LOW", nil}), false},
		{leaf("priority_hint", "exists"), false},
		{leaf("message", "eq", nil), true},
		{leaf("message", "not_exists"), true},
		{leaf("expires_in_s", "lt", 10), false},
		{leaf("expires_in_s", "gte", 0), false},
		{leaf("since_last_s", "eq", nil), true},
		{leaf("since_last_s", "neq", 5), true},
		{not(leaf("since_same_type_s", "gt", 5)), true},
		{leaf("metadata.absent", "eq", nil), true},
		{leaf("metadata.absent", "neq", "x"), true},
		{leaf("metadata.absent", "gt", 1), false},
		{leaf("metadata.null", "exists"), false},
		{leaf("metadata.null", "in", []any{1, nil}), true},
		{leaf("metadata.null", "not_in", []any{1, nil}), false},
		// Numbers are decimals, never texts.
		{leaf("metadata.n", "eq", 1), true},
		{leaf("metadata.n", "eq", json.Number("10e-1")), true},
		{leaf("metadata.n", "eq", "1"), false},
		{leaf("metadata.n", "lte", 1), true},
		{leaf("metadata.n", "lt", 1), false},
		{leaf("age_s", "gt", 1), true},
		{leaf("age_s", "eq", 1), false},
		{leaf("age_s", "eq", json.Number("1.5")), true},
		{leaf("age_s", "gte", json.Number("1.5001")), false},
		{leaf("age_s", "lt", json.Number("1.5001")), true},
		{leaf("age_s", "lt", json.Number("1e30")), true},
		{leaf("age_s", "gt", json.Number("-1e30")), true},
		{leaf("age_s", "in", []any{7, 5, json.Number("0.0001"), json.Number("1.5")}), true},
		{leaf("metadata.n", "in", []any{7, 5, 3, 1}), true},
		{leaf("metadata.n", "not_in", []any{7, 5, 3}), true},
		{leaf("metadata.s", "in", []any{"7", "5", "3", "1"}), true},
		{leaf("source", "in", []any{"z", "y", "shop"}), true},
		{leaf("source", "not_in", []any{"z", nil}), true},
		{leaf("message", "in", []any{"z", nil, "a"}), true},
		// A value of another type equals nothing, and is in no order.
		{leaf("metadata.s", "eq", 1), false},
		{leaf("metadata.s", "neq", 1), true},
		{leaf("metadata.s", "in", []any{1, "1"}), true},
		{leaf("metadata.s", "not_in", []any{1, true}), true},
		{leaf("metadata.s", "gt", 0), false},
		{leaf("metadata.s", "eq", nil), false},
		{leaf("metadata.b", "eq", true), true},
		{leaf("metadata.b", "eq", false), false},
		{leaf("metadata.b", "eq", "true"), false},
		{leaf("metadata.list", "eq", "x"), false},
		{leaf("metadata.list", "exists"), true},
		// Any of the channels.
		{leaf("channel", "eq", "email"), true},
		{leaf("channel", "in", []any{"sms", "email"}), true},
		{leaf("channel", "neq", "email"), false},
		{leaf("channel", "neq", "sms"), true},
		{leaf("channel", "not_in", []any{"sms", "in_app"}), true},
		{leaf("in_quiet_hours", "eq", false), true},
		{leaf("in_quiet_hours", "neq", false), false},
		// Parts of texts, and members of lists.
		{leaf("source", "prefix", "sh"), true},
		{leaf("source", "prefix", "Sh"), false},
		{leaf("source", "prefix", "shop-2"), false},
		{leaf("title", "contains", "al"), true},
		{leaf("title", "contains", "AL"), false},
		{leaf("message", "contains", "a"), false},
		{not(leaf("message", "prefix", "a")), true},
		{leaf("metadata.s", "prefix", "1"), true},
		{leaf("metadata.n", "prefix", "1"), false},
		{leaf("metadata.tags", "contains", "winter"), true},
		{leaf("metadata.tags", "contains", "wint"), false},
		{leaf("metadata.tags", "prefix", "shoes"), false},
		{leaf("metadata.list", "contains", "winter"), false},
		{leaf("metadata.absent", "contains", "winter"), false},
		// The user's attributes.
		{leaf("user.plan", "eq", "pro-yearly"), true},
		{leaf("user.plan", "prefix", "pro"), true},
		{leaf("user.segments", "contains", "vip"), true},
		{leaf("user.segments", "contains", "new"), false},
		{leaf("user.orders", "gte", 10), true},
		{leaf("user.absent", "not_exists"), true},
		{leaf("user.absent", "neq", "x"), true},
		{leaf("user.s", "eq", "1"), false},
		{leaf("metadata.plan", "exists"), false},
		// Instants.
		{leaf("now", "before", "2026-11-23T13:00:00+01:00"), false},
		{leaf("now", "after", "2026-11-23T13:00:00+01:00"), false},
		{leaf("now", "before", "2026-11-24"), true},
		{leaf("now", "after", "2026-11-23"), true},
		{leaf("metadata.starts", "before", "2026-12-24"), true},
		{leaf("metadata.starts", "after", "2026-12-23T22:59:59.999Z"), true},
		{leaf("metadata.s", "before", "2026-12-24"), false},
		{leaf("metadata.n", "after", "2026-12-24"), false},
		{leaf("metadata.absent", "before", "2026-12-24"), false},
		{leaf("user.since", "before", "2026-01-01"), true},
		{object{"always": true}, true},
		{not(object{"always": true}), false},
	} {
		p := compiled(t, ruleOf(1, 1, test.condition, "NOW"))
		if got := p.Match(promo(), nil) != nil; got != test.want {
			t.Errorf("%v: %t, want %t", test.condition, got, test.want)
		}
	}
}

func TestASendOfThisInstantIsNoNull(t *testing.T) {
	in := promo()
	in.SinceLast = 0
	if compiled(t, ruleOf(1, 1, all(leaf("since_last_s", "exists"), leaf("since_last_s", "lt", 1)), "NOW")).Match(in, nil) == nil {
		t.Error("a send 0 ms ago is null")
	}
}

func TestSpentAndDisabledRulesArePassedOver(t *testing.T) {
	first, second, last := ruleOf(1, 10, leaf("event_type", "eq", "PROMO"), "LATER"), ruleOf(2, 20, leaf("source", "eq", "shop"), "LATER"),
		ruleOf(3, 30, leaf("source", "eq", "shop"), "NEVER")
	second["enabled"] = false
	p := compiled(t, last, second, first)
	spent := []uuid.UUID{uuid.MustParse(first["rule_id"].(string))}
	if a := p.Match(promo(), nil); a == nil || a.Outcome != notify.Later || a.Strategy != notify.NextHour || a.Rule != spent[0] {
		t.Errorf("without spent rules %+v, want the first rule's action", a)
	}
	if a := p.Match(promo(), spent); a == nil || a.Outcome != notify.Never {
		t.Errorf("with the first rule spent %+v, want the last one's action", a)
	}
}

func TestRulesAreIndexedByType(t *testing.T) {
	p := compiled(t,
		ruleOf(1, 1, all(leaf("event_type", "eq", "ALERT"), leaf("metadata.s", "eq", 1)), "NOW"),
		ruleOf(2, 2, all(leaf("event_type", "not_in", []any{"PROMO", "UPDATE"}), leaf("metadata.s", "eq", 1)), "NOW"),
		ruleOf(3, 3, object{"op": "OR", "rules": []any{leaf("event_type", "eq", "PROMO"), leaf("event_type", "eq", "DIGEST")}}, "NOW"),
		ruleOf(4, 4, leaf("turn", "eq", 5-4), "NOW"))
	for kind, want := range map[notify.EventType]int{notify.Promo: 2, notify.Alert: 3, notify.Update: 1, notify.Digest: 3, notify.Message: 2} {
		if got := len(p.byType[kind]); got != want {
			t.Errorf("%d rules are asked for %s, want %d", got, kind, want)
		}
	}
	if p.Match(promo(), nil) == nil {
		t.Error("no rule of the type was asked")
	}
	if in := promo(); true {
		in.Event.Type = 200
		if p.Match(in, nil) != nil || p.Near(in) != nil {
			t.Error("an unknown type has rules")
		}
	}
}

func TestActions(t *testing.T) {
	rule := ruleOf(1, 1, leaf("event_type", "eq", "PROMO"), "NOW")
	for _, test := range []struct {
		action string
		want   notify.Action
	}{
		{`{"outcome": "NOW", "reason_code": "AA"}`, notify.Action{Outcome: notify.Now, Bypass: notify.Forced}},
		{
			`{"outcome": "NOW", "reason_code": "AA", "defer_strategy": null, "channel_override": null, "bypass": null}`,
			notify.Action{Outcome: notify.Now, Bypass: notify.Forced},
		},
		{`{"outcome": "NOW", "reason_code": "AA", "bypass": []}`, notify.Action{Outcome: notify.Now}},
		{
			`{"outcome": "NOW", "reason_code": "AA", "bypass": ["quiet_hours", "caps"], "channel_override": ["sms", "push"]}`,
			notify.Action{Outcome: notify.Now, Bypass: notify.Bypass{Caps: true, Quiet: true}, Channels: []notify.Channel{notify.SMS, notify.Push}},
		},
		{
			`{"outcome": "LATER", "reason_code": "AA", "defer_strategy": "digest_window", "digest_key": ["source", "metadata.a.b"]}`,
			notify.Action{Outcome: notify.Later, Strategy: notify.DigestWindow, DigestKey: []string{"source", "metadata.a.b"}},
		},
		{`{"outcome": "NEVER", "reason_code": "AA", "escalate": null}`, notify.Action{Outcome: notify.Never}},
		{
			`{"outcome": "NOW", "reason_code": "AA", "bypass": [], "escalate": [{"after": "1m", "channels": ["email", "sms"]}, {"after": "168h", "channels": ["sms"], "unless": "never"}]}`,
			notify.Action{Outcome: notify.Now, Escalate: []notify.Escalation{
				{After: 60_000, Channels: []notify.Channel{notify.Email, notify.SMS}, Unless: notify.UnlessRead},
				{After: 7 * 86_400_000, Channels: []notify.Channel{notify.SMS}, Unless: notify.UnlessNever},
			}},
		},
		{
			`{"outcome": "LATER", "reason_code": "AA", "defer_strategy": "likely_hour", "within": "12h"}`,
			notify.Action{Outcome: notify.Later, Strategy: notify.LikelyHour, Within: 12 * 3_600_000},
		},
	} {
		rule["action"] = json.RawMessage(test.action)
		test.want.Rule, test.want.Name, test.want.Reason = uuid.MustParse(rule["rule_id"].(string)), rule["name"].(string), "AA"
		got := compiled(t, rule).Match(promo(), nil)
		if got == nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s: %+v, want %+v", test.action, got, test.want)
		}
	}
}

// faultsOf returns the faults of a document, a line each, warnings included.
func faultsOf(text []byte) string {
	_, faults := Read(text)
	lines := make([]string, len(faults))
	for i := range faults {
		lines[i] = faults[i].String()
	}
	return strings.Join(lines, "\n")
}

func TestTextsThatAreNoDocument(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "line 1, $: the text ends too early",
		"{\"version\": \"1\",\n\"rules\": [": "line 2, $: the text ends too early",
		"{\"version\": \"1\",\n\"rules\": ]": "line 2, $: byte 26: not valid JSON",
		`{"version": "1", "rules": []} {}`:   "$: byte 31: not valid JSON: found something more behind the document: remove it",
		`{"version": "1", "rules": []}x`:     "not valid JSON",
		"{\"version\": \"\xff\"}":            "invalid UTF-8",
		`{"version": "\ud800"}`:              "surrogate",
		`[]`:                                 "$: found an array, expected an object",
		`null`:                               "$: found null, expected an object",
		strings.Repeat("[", 101):             "more than 100 deep",
		`{"rules": []}`:                      `$.version: the key "version" is missing`,
		`{"version": "", "rules": {}}`:       "$.version: found 0 characters",
		`{"version": "1", "rules": [null]}`:  "$.rules[0]: found null, expected an object",
		`{"version": "1", "rules": [{"priority": -0}]}`:                                "$.rules[0].priority: found -0",
		`{"version": "1", "rules": [], "tests": [{"event": {"prioriy_hint": "LOW"}}]}`: `unknown key "prioriy_hint": did you mean "priority_hint"?`,
		`{"version": "1", "rules": [], "tests": [{"rule": "x"}]}`:                      `unknown rule "x": there is none`,
		`{"version": "1", "rules": [{}], "tests": [{"rule": "message"}]}`:              `unknown rule "message": there is none`,
		`{"version": "1", "rules": [], "rules": [{}]}`:                                 `$.rules: the key "rules" is there twice`,
	} {
		if found := faultsOf([]byte(text)); !strings.Contains(found, want) {
			t.Errorf("%s: found %q, expected %q", text, found, want)
		}
	}
}

func TestLimits(t *testing.T) {
	deep := func(levels int) any {
		c := leaf("turn", "eq", 1)
		for range levels - 1 {
			c = not(c)
		}
		return c
	}
	wide := func(nodes int) any {
		var kids []any
		for range nodes - 1 {
			kids = append(kids, leaf("turn", "eq", 1))
		}
		return all(kids...)
	}
	many := func(n int) []object {
		rules := make([]object, n)
		for i := range rules {
			rules[i] = ruleOf(i, i, leaf("turn", "eq", 1), "NOW")
			rules[i]["name"] = fmt.Sprint("rule ", i)
		}
		return rules
	}
	long := func(bytes int) object {
		rule := ruleOf(1, 1, leaf("source", "in", []string{""}), "NOW")
		text, _ := json.Marshal(rule)
		rule["conditions"] = leaf("source", "in", []string{strings.Repeat("x", bytes-len(text))})
		return rule
	}
	for _, test := range []struct {
		name  string
		rules []object
		want  string
	}{
		{"depth 8", []object{ruleOf(1, 1, deep(8), "NOW")}, ""},
		{"depth 9", []object{ruleOf(1, 1, deep(9), "NOW")}, "more than 8 deep"},
		{"256 conditions", []object{ruleOf(1, 1, wide(256), "NOW")}, ""},
		{"257 conditions", []object{ruleOf(1, 1, wide(257), "NOW")}, "more than 256 conditions"},
		{"64 KiB", []object{long(MaxRuleBytes)}, ""},
		{"64 KiB and a byte", []object{long(MaxRuleBytes + 1)}, "the rule has 65537 bytes"},
		{"1000 rules", many(1000), ""},
		{"1001 rules", many(1001), "found 1001 rules"},
	} {
		found := faultsOf(documentOf(t, test.rules...))
		if test.want == "" && found != "" || !strings.Contains(found, test.want) {
			t.Errorf("%s: found %.300q, expected %q", test.name, found, test.want)
		}
	}
}

func TestRulesThatNoEventReaches(t *testing.T) {
	everything, promos := leaf("event_type", "exists"), leaf("event_type", "eq", "PROMO")
	others := leaf("event_type", "neq", "PROMO")
	for name, test := range map[string]struct {
		rules []object
		want  string // "": no fault, also no warning
	}{
		"behind an unconditional NOW": {
			[]object{ruleOf(1, 1, everything, "NOW"), ruleOf(2, 2, promos, "NEVER")},
			`conditions: rule "rule C": the rule is never reached: rule "rule B"`,
		},
		"behind an always":              {[]object{ruleOf(1, 1, object{"always": true}, "NOW"), ruleOf(2, 2, promos, "NEVER")}, `rule "rule C": the rule is never reached: rule "rule B"`},
		"an always at the end":          {[]object{ruleOf(1, 1, promos, "NOW"), ruleOf(2, 2, object{"always": true}, "LATER")}, ""},
		"never":                         {[]object{ruleOf(1, 1, not(object{"always": true}), "NOW")}, "warning: rule \"rule B\": these conditions match no event"},
		"behind an OR of all":           {[]object{ruleOf(1, 1, object{"op": "OR", "rules": []any{promos, not(promos)}}, "NOW"), ruleOf(2, 2, promos, "NEVER")}, "never reached"},
		"behind the type's own rule":    {[]object{ruleOf(1, 1, promos, "NOW"), ruleOf(2, 2, all(promos, leaf("turn", "eq", 1)), "NEVER")}, "warning: rule \"rule C\": the rule is never reached"},
		"behind both halves":            {[]object{ruleOf(1, 1, promos, "NOW"), ruleOf(2, 2, others, "NOW"), ruleOf(3, 3, leaf("turn", "eq", 0), "NOW")}, "warning: rule \"rule D\": the rule is never reached"},
		"before it":                     {[]object{ruleOf(1, 2, everything, "NOW"), ruleOf(2, 1, promos, "NEVER")}, ""},
		"behind a condition":            {[]object{ruleOf(1, 1, all(promos, leaf("turn", "eq", 0)), "NOW"), ruleOf(2, 2, promos, "NEVER")}, ""},
		"behind two LATERs":             {[]object{ruleOf(1, 1, everything, "LATER"), ruleOf(2, 2, everything, "LATER"), ruleOf(3, 3, promos, "NEVER")}, ""},
		"behind three LATERs":           {[]object{ruleOf(1, 1, everything, "LATER"), ruleOf(2, 2, everything, "LATER"), ruleOf(3, 3, everything, "LATER"), ruleOf(4, 4, promos, "NEVER")}, "never reached"},
		"a NEVER for SECURITY":          {[]object{ruleOf(1, 1, leaf("turn", "eq", 2), "NEVER")}, "warning: rule \"rule B\": this NEVER can match SECURITY"},
		"a NEVER behind SECURITY's NOW": {[]object{ruleOf(1, 1, leaf("event_type", "eq", "SECURITY"), "NOW"), ruleOf(2, 2, leaf("turn", "eq", 2), "NEVER")}, ""},
		"a NEVER for others":            {[]object{ruleOf(1, 1, leaf("event_type", "in", []string{"PROMO", "DIGEST"}), "NEVER")}, ""},
		"two types at once":             {[]object{ruleOf(1, 1, all(promos, leaf("event_type", "eq", "ALERT")), "NOW")}, "warning: rule \"rule B\": these conditions match no event"},
	} {
		found := faultsOf(documentOf(t, test.rules...))
		if test.want == "" && found != "" || !strings.Contains(found, test.want) {
			t.Errorf("%s: found %q, expected %q", name, found, test.want)
		}
		test.rules[0]["enabled"] = false
		if found := faultsOf(documentOf(t, test.rules...)); strings.Contains(found, "$.rules[0]") || len(test.rules) == 2 && strings.Contains(found, "reached") {
			t.Errorf("%s, with the first rule disabled: found %q", name, found)
		}
	}
}

func TestNear(t *testing.T) {
	p := compiled(t,
		ruleOf(1, 1, all(leaf("event_type", "eq", "PROMO"), leaf("local_hour", "gte", 20)), "LATER"),
		ruleOf(2, 2, all(leaf("local_hour", "gte", 20), leaf("source", "in", []string{"mail", "app"})), "NOW"),
		ruleOf(3, 3, all(leaf("age_s", "gt", 1), not(leaf("channel", "eq", "email"))), "NOW"),
		ruleOf(4, 4, object{"op": "OR", "rules": []any{leaf("metadata.s", "eq", 2), all(leaf("turn", "eq", 1), leaf("turn", "eq", 2))}}, "NOW"),
		ruleOf(5, 5, leaf("since_last_s", "lt", 60), "NOW"),
		ruleOf(6, 6, leaf("age_s", "eq", json.Number("1.5")), "NOW"),
		ruleOf(7, 7, all(leaf("event_type", "eq", "ALERT")), "NOW"),
		ruleOf(8, 8, all(object{"always": true}, leaf("metadata.tags", "contains", "sale")), "NOW"),
		ruleOf(9, 9, all(object{"always": true}, leaf("now", "after", "2026-12-24")), "NOW"),
		ruleOf(10, 10, leaf("user.segments", "contains", "new"), "NOW"),
		ruleOf(11, 11, not(object{"always": true}), "NOW"))
	want := []string{
		`rule B: asks for local_hour gte 20, found 12`,
		`rule D: asks for NOT(channel eq "email"), found push, email`,
		`rule E: asks for metadata.s eq 2, found "1"`,
		`rule F: asks for since_last_s lt 60, found null`,
		`rule I: asks for metadata.tags contains "sale", found ["shoes", "winter"]`,
		`rule J: asks for now after "2026-12-24", found "2026-11-23T12:00:00Z"`,
		`rule K: asks for user.segments contains "new", found ["vip"]`,
	}
	if got := p.Near(promo()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAChangedRuleRaisesItsVersion(t *testing.T) {
	read := func(change func(rule object)) *Document {
		rule, other := ruleOf(1, 1, leaf("turn", "eq", 1), "NOW"), ruleOf(2, 2, leaf("turn", "eq", 2), "NOW")
		rule["version"] = "1.9.0"
		if change != nil {
			change(rule)
		}
		d, faults := Read(documentOf(t, other, rule))
		if d == nil {
			t.Fatal(faults.Err())
		}
		return d
	}
	version := func(v string) func(object) {
		return func(rule object) { rule["version"], rule["enabled"] = v, false }
	}
	for name, test := range map[string]struct {
		change func(object)
		want   string
	}{
		"unchanged":       {nil, ""},
		"who and when":    {func(rule object) { rule["updated_by"], rule["updated_at"] = "nn", "2026-11-22T10:00:00Z" }, ""},
		"raised":          {version("1.10.0"), ""},
		"not raised":      {version("1.9.0"), "the rule has changed, and its version 1.9.0 is not above 1.9.0: raise it"},
		"lower":           {version("1.8.99"), "is not above 1.9.0"},
		"its conditions":  {func(rule object) { rule["conditions"] = leaf("turn", "eq", 0) }, "raise it"},
		"its reason":      {func(rule object) { rule["action"] = object{"outcome": "NOW", "reason_code": "NEW"} }, "raise it"},
		"another rule_id": {func(rule object) { rule["rule_id"] = uuid.NewString() }, "set enabled to false"},
	} {
		faults := CheckVersions(read(nil), read(test.change))
		switch {
		case test.want == "" && len(faults) > 0:
			t.Errorf("%s: found %v", name, faults)
		case test.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].Text, test.want)):
			t.Errorf("%s: found %v, expected %q", name, faults, test.want)
		}
	}
}

func TestAPolicyOverridesSingleDefaults(t *testing.T) {
	d, faults := Read([]byte(`{"version": "1", "rules": [], "policy": {"caps": {"1h": 2}, "types": {"PROMO": {"cooldown": "90s"}},
		"identity": ["order.id"], "score": {"weights": {"taste": 2}, "taste": true}}}`))
	if d == nil {
		t.Fatal(faults.Err())
	}
	want := defaultPolicy()
	want.Caps[1] = 2
	want.Types[notify.Promo].Cooldown = 90_000
	want.Identity = []string{"order.id"}
	want.Score.Weights.Taste, want.Score.Taste = 2, true
	if fmt.Sprint(d.Policy) != fmt.Sprint(want) {
		t.Errorf("found    %+v\nexpected %+v", d.Policy, want)
	}
}

// TestDefaultFigures holds the figures of the shipped policy.
func TestDefaultFigures(t *testing.T) {
	const minute, hour = engine.Millis(60_000), engine.Millis(3_600_000)
	type figures = notify.TypePolicy
	var want notify.Policy
	want.Types[notify.Security] = figures{DuplicateWindow: minute, NowAtLimit: true, Base: 1, OpenRate: .8, HalfLife: 24 * hour}
	want.Types[notify.Alert] = figures{DuplicateWindow: 10 * minute, Capped: true, Quiet: true, NowAtLimit: true, Base: .9, OpenRate: .5, HalfLife: hour}
	want.Types[notify.System] = figures{DuplicateWindow: 24 * hour, Capped: true, Quiet: true, NowAtLimit: true, Base: .7, OpenRate: .2, HalfLife: 24 * hour}
	want.Types[notify.Message] = figures{DuplicateWindow: 5 * minute, ByKeyOnly: true, Capped: true, Quiet: true, NowAtLimit: true, Base: .8, OpenRate: .5, HalfLife: 2 * hour}
	want.Types[notify.Reminder] = figures{DuplicateWindow: 24 * hour, Near: true, Capped: true, Cooldown: 10 * minute, Quiet: true, NowAtLimit: true, Base: .6, OpenRate: .3, HalfLife: 6 * hour}
	want.Types[notify.Update] = figures{DuplicateWindow: 24 * hour, Near: true, Capped: true, Cooldown: 30 * minute, Quiet: true, Base: .5, OpenRate: .4, HalfLife: 24 * hour, EmbedText: true}
	want.Types[notify.Digest] = figures{DuplicateWindow: 24 * hour, Near: true, Capped: true, Cooldown: 12 * hour, Quiet: true, Base: .4, OpenRate: .2, HalfLife: 24 * hour, EmbedText: true}
	want.Types[notify.Promo] = figures{DuplicateWindow: 24 * hour, Near: true, Capped: true, Cooldown: 4 * hour, Quiet: true, Base: .25, OpenRate: .1, HalfLife: 24 * hour, EmbedText: true}
	want.Caps = notify.Caps{3, 6, 20}
	want.Identity = []string{"order_id", "thread_id", "entity_id"}
	want.Score = notify.ScorePolicy{
		Weights: notify.Parts{Base: .3, Hint: .25, Taste: .2, Recency: .1, Calm: .15}, Now: .55, Later: .3, Floor: .05, Ceiling: .45,
	}
	if got := defaultPolicy(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found    %+v\nexpected %+v", got, want)
	}
}

// No set allows texts of SECURITY and MESSAGE to leave.
//
// Promise(notify-worker/private-texts)
func TestPrivateTextsAreNotEmbedded(t *testing.T) {
	for _, kind := range notify.EventTypes {
		document, faults := Read(fmt.Appendf(nil, `{"version":"1","policy":{"types":{%q:{"embed_text":true}}},"rules":[]}`, kind))
		refused := document == nil
		if refused != (kind == notify.Security || kind == notify.Message) {
			t.Errorf("%s: refused %t, %v", kind, refused, faults.Err())
		}
		if refused && !strings.Contains(faults.Err().Error(), "policy.types."+kind.String()+".embed_text") {
			t.Errorf("the fault does not name its place: %v", faults.Err())
		}
	}
}
