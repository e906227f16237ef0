package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Limits of a document.
const (
	MaxRules     = 1000
	MaxRuleBytes = 64 << 10
	MaxDepth     = 8   // of conditions in each other; a single comparison has 1
	MaxNodes     = 256 // conditions of a rule, the combining ones included
)

// Document is a set as it is written: the version under which records name it, the
// policy, the rules and test cases.
type Document struct {
	Version string
	Policy  notify.Policy
	Rules   []Rule // as they are written, disabled ones included
	Cases   []Case
}

// Rule is a rule as it is written.
type Rule struct {
	ID          uuid.UUID
	Name        string
	Description string
	Priority    int // lower ones are asked first; each differs
	Conditions  Condition
	Action      notify.Action
	Enabled     bool
	Version     string // three numbers, such as 1.3.0
	UpdatedBy   string
	CreatedAt   engine.Millis // 0: not said
	UpdatedAt   engine.Millis // 0: not said
}

// Read reads a document. It returns every fault at once. With a fault that is no
// warning the document is nil. What the policy leaves out has the shipped set's value.
func Read(text []byte) (*Document, Faults) {
	r := &reader{}
	d := &Document{Policy: defaultPolicy()}
	r.document(r.parse(text), d)
	r.faults.locate(text)
	if r.faults.Err() != nil {
		return nil, r.faults
	}
	return d, r.faults
}

func (r *reader) document(root *node, d *Document) {
	if root == nil {
		return
	}
	var rules, cases []*node
	r.object(root,
		key{"version", true, func(n *node) { d.Version = r.string(n, 64) }},
		key{"policy", false, func(n *node) { r.policy(n, &d.Policy) }},
		key{"rules", true, func(n *node) {
			if r.list(n, 0, func(n *node) { rules = append(rules, n) }); len(rules) > MaxRules {
				r.fault(n, "found %d rules, expected at most %d", len(rules), MaxRules)
				rules = nil
			}
		}},
		key{"tests", false, func(n *node) { r.list(n, 0, func(n *node) { cases = append(cases, n) }) }},
	)
	var sound []ranked
	for i, n := range rules {
		before := len(r.faults)
		r.rule = nameOf(rules, i)
		d.Rules = append(d.Rules, r.readRule(n))
		if rule := d.Rules[i]; len(r.faults) == before && rule.Enabled {
			sound = append(sound, ranked{&rule, n.get("conditions")})
		}
	}
	r.rule = ""
	r.once(rules, "rule_id", "a rule_id names one rule for ever: make a new one", false)
	r.once(rules, "priority", "priorities are the order of the rules: change one", false)
	r.once(rules, "name", "explanations and cases name rules: change one", true)
	r.rules = d.Rules
	for _, n := range cases {
		d.Cases = append(d.Cases, r.testCase(n))
	}
	r.reach(sound)
}

// once names rules that have a member's value of an earlier rule.
func (r *reader) once(rules []*node, name, cure string, warning bool) {
	first := map[string]int{}
	for i, n := range rules {
		value := n.get(name)
		if value == nil || value.text == "" {
			continue
		}
		text := strings.ToLower(value.text)
		if j, ok := first[text]; ok {
			r.add(value, Fault{
				Rule:    nameOf(rules, i),
				Text:    fmt.Sprintf("rule %q has the %s %s too: %s", nameOf(rules, j), name, value.text, cure),
				Warning: warning,
			})
			continue
		}
		first[text] = i
	}
}

// nameOf returns what faults call a rule.
func nameOf(rules []*node, i int) string {
	if name := rules[i].get("name"); name != nil && name.kind == '"' && name.text != "" {
		return name.text
	}
	return fmt.Sprintf("rules[%d]", i)
}

// semantic matches the version of a rule.
var semantic = regexp.MustCompile(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

func (r *reader) readRule(n *node) (out Rule) {
	if len(n.raw) > MaxRuleBytes {
		r.fault(n, "the rule has %d bytes, expected at most %d: split it", len(n.raw), MaxRuleBytes)
	}
	out.Enabled = true
	r.object(n,
		key{"rule_id", true, func(n *node) { out.ID = r.uuid(n); r.id = out.ID }},
		key{"name", true, func(n *node) { out.Name = r.string(n, 128) }},
		key{"description", false, func(n *node) { out.Description = r.string(n, 4000) }},
		key{"priority", true, func(n *node) { out.Priority = r.int(n, -1<<31, 1<<31-1) }},
		key{"conditions", true, func(n *node) { nodes := 0; out.Conditions = r.condition(n, 1, &nodes) }},
		key{"action", true, func(n *node) { out.Action = r.action(n) }},
		key{"enabled", false, func(n *node) { out.Enabled = r.bool(n) }},
		key{"version", true, func(n *node) {
			if out.Version = r.string(n, 32); out.Version != "" && !semantic.MatchString(out.Version) {
				r.fault(n, "malformed version %q: expected three numbers, such as 1.3.0", out.Version)
			}
		}},
		key{"updated_by", false, func(n *node) { out.UpdatedBy = r.string(n, 128) }},
		key{"created_at", false, func(n *node) { out.CreatedAt = r.instant(n) }},
		key{"updated_at", false, func(n *node) { out.UpdatedAt = r.instant(n) }},
	)
	out.Action.Rule, out.Action.Name = out.ID, out.Name
	return out
}

func (r *reader) uuid(n *node) uuid.UUID {
	if !r.is(n, '"') {
		return uuid.Nil
	}
	id, err := uuid.Parse(n.text)
	if err != nil || len(n.text) != 36 || id == uuid.Nil {
		r.fault(n, "malformed UUID %q: expected one such as 5f0c54f2-7a3e-4d0b-9a57-3f4c1de0a001", n.text)
		return uuid.Nil
	}
	return id
}

// code matches a rule's reason.
var code = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,63}$`)

func (r *reader) action(n *node) (a notify.Action) {
	var strategy, bypass *node
	r.object(n,
		key{"outcome", true, func(n *node) { a.Outcome = word(r, n, notify.Now, notify.Later, notify.Never) }},
		key{"defer_strategy", false, func(n *node) {
			strategy = n
			a.Strategy = word(r, n, notify.FixedDelay15m, notify.NextHour, notify.NextMorning, notify.NextQuietEnd, notify.DigestWindow, notify.LikelyHour)
		}},
		key{"channel_override", false, func(n *node) { a.Channels = words(r, n, 1, notify.Channels...) }},
		key{"reason_code", true, func(n *node) { a.Reason = r.reason(n) }},
		key{"bypass", false, func(n *node) { bypass, a.Bypass = n, r.bypass(n) }},
		key{"digest_key", false, func(n *node) { a.DigestKey = r.digestKey(n) }},
		key{"within", false, func(n *node) { a.Within = r.duration(n, time.Hour, 24*time.Hour) }},
		key{"escalate", false, func(n *node) { a.Escalate = r.escalation(n) }},
	)
	if steps := n.get("escalate"); steps != nil && steps.kind != 'n' && a.Outcome != 0 && a.Outcome != notify.Now {
		r.fault(steps, "an escalation is for NOW only: remove it, or change the outcome; NOW with \"bypass\": [] waits for caps and quiet hours")
	}
	r.checkWithin(n, &a)
	switch {
	case a.Outcome == notify.Later && strategy == nil:
		r.fault(n, "LATER needs a defer_strategy: add one")
	case a.Outcome != 0 && a.Outcome != notify.Later && strategy != nil:
		r.fault(strategy, "a defer_strategy is for LATER only: remove it, or change the outcome")
	}
	if bypass == nil && a.Outcome == notify.Now {
		a.Bypass = notify.Forced
	}
	if bypass != nil && a.Outcome != 0 && a.Outcome != notify.Now {
		r.fault(bypass, "a bypass is for NOW only: remove it, or change the outcome")
	}
	if key := n.get("digest_key"); key != nil && key.kind != 'n' && (strategy == nil || a.Strategy != 0 && a.Strategy != notify.DigestWindow) {
		r.fault(key, "a digest_key is for the defer_strategy digest_window only: remove it, or change the strategy")
	}
	return a
}

// checkWithin checks the bound of likely_hour, which no other strategy has.
func (r *reader) checkWithin(n *node, a *notify.Action) {
	within := n.get("within")
	switch given := within != nil && within.kind != 'n'; {
	case a.Strategy == notify.LikelyHour && !given:
		r.fault(n, "likely_hour needs a bound: add within, such as \"12h\"")
	case given && a.Strategy != notify.LikelyHour:
		r.fault(within, "within is for the defer_strategy likely_hour only: remove it, or change the strategy")
	}
}

// newReasons were free for rules in sets that are published already.
var newReasons = []string{
	notify.ReasonLimit, notify.ReasonTopicDigest, notify.ReasonRead, notify.ReasonDelivered, notify.ReasonEscalated,
	notify.ReasonOtherChannel, notify.ReasonCancelled, notify.ReasonReplaced, notify.ReasonReplaces, notify.ReasonPaused, notify.ReasonSnoozed,
}

func (r *reader) reason(n *node) string {
	s := r.string(n, 64)
	switch {
	case slices.Contains(newReasons, s):
		r.warn(n, "the reason %s is keyfold's own by now, and decisions of this rule look as if it were meant: choose another", s)
	case slices.Contains(notify.Reasons, s):
		r.fault(n, "the reason %s is keyfold's own: choose another", s)
	case s != "" && !code.MatchString(s):
		r.fault(n, "malformed reason %q: expected 2 to 64 of A-Z, 0-9 and _, a letter first", s)
	}
	return s
}

// stages are what a bypass may name.
var stages = []string{"caps", "cooldown", "quiet_hours"}

func (r *reader) bypass(n *node) (b notify.Bypass) {
	all := []*bool{&b.Caps, &b.Cooldown, &b.Quiet}
	r.list(n, 0, func(item *node) {
		if !r.is(item, '"') {
			return
		}
		switch i := slices.Index(stages, item.text); {
		case i < 0:
			r.fault(item, "unknown stage %q: %s", item.text, hint(item.text, stages))
		case *all[i]:
			r.fault(item, "%s is there twice: remove one", item.text)
		default:
			*all[i] = true
		}
	})
	return b
}

func (r *reader) digestKey(n *node) (names []string) {
	r.list(n, 1, func(item *node) {
		if !r.is(item, '"') {
			return
		}
		switch f := r.field(item); {
		case f == nil:
		case !f.own():
			r.fault(item, "%s differs from decision to decision: a key is of the event's own fields", item.text)
		case slices.Contains(names, item.text):
			r.fault(item, "%s is there twice: remove one", item.text)
		default:
			names = append(names, item.text)
		}
	})
	return names
}

// escalation reads the steps that follow a NOW.
func (r *reader) escalation(n *node) (steps []notify.Escalation) {
	if len(n.items) > notify.MaxSteps {
		r.fault(n, "found %d steps, expected at most %d", len(n.items), notify.MaxSteps)
	}
	r.list(n, 1, func(item *node) {
		s := notify.Escalation{Unless: notify.UnlessRead}
		r.object(item,
			key{"after", true, func(n *node) { s.After = r.duration(n, time.Minute, maxWindow) }},
			key{"channels", true, func(n *node) { s.Channels = words(r, n, 1, notify.Channels...) }},
			key{"unless", false, func(n *node) {
				s.Unless = word(r, n, notify.UnlessRead, notify.UnlessDelivered, notify.UnlessNever)
			}},
		)
		steps = append(steps, s)
	})
	return steps
}
