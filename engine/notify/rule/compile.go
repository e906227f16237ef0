package rule

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Program is the compiled list of a document's enabled rules. It implements
// [notify.Rules]. Any number of goroutines may use it.
type Program struct {
	// steps are the comparisons of all rules. Each names the step that follows if it
	// holds and the one if it does not; those stand before it.
	steps  []step
	byType [256][]entry // by event type, in the order of priority
}

type step struct {
	holds     func(in *notify.Input) bool
	then      int32
	otherwise int32
	of        *Condition
	field     *field
	asks      asks // what is wanted where holds is true; of a decision that nearly matches
	asksNot   asks
}

// Steps that end a rule.
const (
	matched = -1
	missed  = -2
)

// entry is a rule, for the types of which it can match an event.
type entry struct {
	first  int32
	action *notify.Action
}

// Compile makes a set of a document that [Read] returned.
func Compile(d *Document, local notify.Local) *notify.Set {
	p := &Program{}
	order := make([]*Rule, 0, len(d.Rules))
	for i := range d.Rules {
		if d.Rules[i].Enabled {
			order = append(order, &d.Rules[i])
		}
	}
	slices.SortFunc(order, func(a, b *Rule) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, rule := range order {
		from := len(p.steps)
		first := p.compile(&rule.Conditions, matched, missed)
		for i := from; i < len(p.steps); i++ {
			p.steps[i].prepare(rule.Action.Name)
		}
		for _, t := range notify.EventTypes {
			if rule.Conditions.of(t) != no {
				p.byType[t] = append(p.byType[t], entry{p.firstFor(first, t), &rule.Action})
			}
		}
	}
	return &notify.Set{Version: d.Version, Policy: d.Policy, Rules: p, Local: local}
}

// firstFor returns the first step of a rule for events of a type. It passes those that ask for
// the type first: they hold, and where they did not, the rule would not match.
func (p *Program) firstFor(at int32, t notify.EventType) int32 {
	in := notify.Input{Event: &notify.Notification{Type: t}}
	for at >= 0 && p.steps[at].of.Field == "event_type" {
		s := &p.steps[at]
		holds := s.holds(&in)
		if s.next(!holds) != missed {
			break
		}
		at = s.next(holds)
	}
	return at
}

// compile appends a condition's steps and returns the first of them. then and otherwise
// are the steps behind it.
func (p *Program) compile(c *Condition, then, otherwise int32) int32 {
	switch c.Op {
	case "AND":
		for i := len(c.Rules) - 1; i >= 0; i-- {
			then = p.compile(&c.Rules[i], then, otherwise)
		}
		return then
	case "OR":
		for i := len(c.Rules) - 1; i >= 0; i-- {
			otherwise = p.compile(&c.Rules[i], then, otherwise)
		}
		return otherwise
	case "NOT":
		return p.compile(&c.Rules[0], otherwise, then)
	case always:
		return then
	}
	if _, negated := operatorOf(c.Operator).positive(); negated {
		then, otherwise = otherwise, then
	}
	p.steps = append(p.steps, step{holds: comparison(c), then: then, otherwise: otherwise, of: c})
	return int32(len(p.steps) - 1)
}

// Match returns the first rule, by priority, that the facts match, without those in
// spent; nil where there is none. It does not allocate.
func (p *Program) Match(in *notify.Input, spent []uuid.UUID) *notify.Action {
	entries := p.byType[in.Event.Type]
	for i := range entries {
		if p.matches(entries[i].first, in) && !slices.Contains(spent, entries[i].action.Rule) {
			return entries[i].action
		}
	}
	return nil
}

func (p *Program) matches(at int32, in *notify.Input) bool {
	for at >= 0 {
		if s := &p.steps[at]; s.holds(in) {
			at = s.then
		} else {
			at = s.otherwise
		}
	}
	return at == matched
}
