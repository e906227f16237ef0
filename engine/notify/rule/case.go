package rule

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Case is a test case of a document: an event, what is known of its user, and the
// decision that is expected; or a digest and the texts that are expected.
type Case struct {
	Name string

	path    string
	now     engine.Millis
	event   *notify.Notification
	prefs   notify.Preferences
	erased  bool
	sent    []earlier // oldest first
	turn    int
	spent   []uuid.UUID
	score   notify.Score
	outcome notify.Outcome
	reasons []string
	rule    string // its name; "": none
	until   engine.Millis
	digest  *digestCase // nil: it is of a decision
	// Of a NOW; nil: not compared.
	channels []notify.Channel
	follows  *[]followCase
}

// earlier is a notification that was sent before.
type earlier struct {
	at    engine.Millis
	event *notify.Notification
}

// caseNow is the time of a case that names none: a Monday at noon, UTC.
const caseNow = "2026-11-23T12:00:00Z"

func (r *reader) testCase(n *node) (c Case) {
	c.path = n.path
	c.now = r.instant(&node{kind: '"', text: caseNow})
	if now := n.get("now"); n.kind == '{' && now != nil && now.kind != 'n' {
		c.now = r.instant(now)
	}
	name, now := key{"name", true, func(n *node) { c.Name = r.string(n, 200) }}, key{"now", false, func(*node) {}}
	if n.kind == '{' && n.get("digest") != nil {
		r.object(n, name, now, key{"digest", true, func(n *node) { c.digest = r.digestCase(n, c.now) }})
		return c
	}
	r.object(n, name, now,
		key{"event", true, func(n *node) { c.event = r.event(n, c.now) }},
		key{"prefs", false, func(n *node) { r.preferences(n, &c.prefs) }},
		key{"state", false, func(n *node) { r.state(n, &c) }},
		key{"turn", false, func(n *node) { c.turn = r.int(n, 0, notify.MaxTurn) }},
		key{"spent", false, func(n *node) {
			r.list(n, 0, func(n *node) { c.spent = append(c.spent, r.ruleNamed(n).ID) })
		}},
		key{"cosine", false, func(n *node) { c.score = notify.Score{Cosine: r.float(n, -1, 1), Known: true} }},
		key{"outcome", true, func(n *node) { c.outcome = word(r, n, notify.Now, notify.Later, notify.Never, notify.Postponed) }},
		key{"reasons", true, func(n *node) {
			r.list(n, 0, func(n *node) { c.reasons = append(c.reasons, r.string(n, 64)) })
		}},
		key{"rule", false, func(n *node) { c.rule = r.ruleNamed(n).Name }},
		key{"defer_until", false, func(n *node) { c.until = r.instant(n) }},
		key{"channels", false, func(n *node) { c.channels = words(r, n, 1, notify.Channels...) }},
		key{"follow_ups", false, func(n *node) { c.follows = r.followCases(n) }},
	)
	return c
}

// ruleNamed returns the rule of a name.
func (r *reader) ruleNamed(n *node) Rule {
	if name := r.string(n, 128); name != "" {
		if at := slices.IndexFunc(r.rules, func(rule Rule) bool { return rule.Name == name }); at >= 0 {
			return r.rules[at]
		}
		r.fault(n, "unknown rule %q: %s", name, hint(name, namesOfRules(r.rules)))
	}
	return Rule{}
}

// namesOfRules returns the names that rules have.
func namesOfRules(rules []Rule) (names []string) {
	for i := range rules {
		if rules[i].Name != "" {
			names = append(names, rules[i].Name)
		}
	}
	return names
}

// eventKeys are the keys of an event.
var eventKeys = []string{
	"event_id", "user_id", "event_type", "title", "message", "source", "priority_hint", "channel", "timestamp",
	"expires_at", "dedupe_key", "metadata",
}

// event reads an event of a case, of which only the keys in question are written. The
// titles of others differ.
func (r *reader) event(n *node, at engine.Millis) *notify.Notification {
	if !r.is(n, '{') {
		return nil
	}
	keys := map[string]any{
		"event_id": uuid.NewSHA1(uuid.Nil, []byte(n.path)), "user_id": "user-1", "event_type": "SYSTEM", "title": n.path,
		"source": "test", "channel": []string{"push"}, "timestamp": at.Time(),
	}
	for _, m := range n.members {
		if !slices.Contains(eventKeys, m.name) { // Parse would pass over it
			r.fault(m.value, "unknown key %q: %s", m.name, hint(m.name, eventKeys))
			return nil
		}
		keys[m.name] = json.RawMessage(m.value.raw)
	}
	body, err := json.Marshal(keys)
	if err != nil {
		r.fault(n, "%v", err)
		return nil
	}
	event, err := notify.Parse(body, at)
	if err == nil {
		return event
	}
	for _, fault := range notify.FaultsOf(err) {
		path := n.path
		if fault.Field != "" {
			path = below(path, fault.Field)
		}
		r.add(n, Fault{Path: path, Text: fault.Text})
	}
	return nil
}

// state reads what was sent before.
func (r *reader) state(n *node, c *Case) {
	r.object(n,
		key{"erased", false, func(n *node) { c.erased = r.bool(n) }},
		key{"sent", false, func(n *node) {
			r.list(n, 0, func(n *node) { c.sent = append(c.sent, r.earlier(n, c.now)) })
			slices.SortStableFunc(c.sent, func(a, b earlier) int { return cmp.Compare(a.at, b.at) })
		}},
	)
}

func (r *reader) earlier(n *node, now engine.Millis) (e earlier) {
	e.at = now
	event := &node{kind: '{', path: n.path, at: n.at}
	r.object(n,
		key{"ago", true, func(n *node) { e.at -= r.duration(n, 0, maxWindow) }},
		key{"event", false, func(n *node) { event = n }},
	)
	e.event = r.event(event, e.at)
	return e
}
