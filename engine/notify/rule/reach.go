package rule

import (
	"cmp"
	"fmt"
	"slices"

	"keyfold/engine/notify"
)

// truth is what is known of a condition: no is false, maybe depends, yes is true.
type truth int8

const (
	no truth = iota - 1
	maybe
	yes
)

// of returns what is known of the condition for all events of a type.
func (c *Condition) of(t notify.EventType) truth {
	switch c.Op {
	case "AND":
		least := yes
		for i := range c.Rules {
			least = min(least, c.Rules[i].of(t))
		}
		return least
	case "OR":
		most := no
		for i := range c.Rules {
			most = max(most, c.Rules[i].of(t))
		}
		return most
	case "NOT":
		return -c.Rules[0].of(t)
	case always:
		return yes
	}
	o, negated := operatorOf(c.Operator).positive()
	known := maybe
	switch f := fieldOf(c.Field); {
	case f.always && o.certain:
		known = yes
	case c.Field == "event_type":
		known = no
		if comparison(c)(&notify.Input{Event: &notify.Notification{Type: t}}) {
			known = yes
		}
	}
	if negated {
		return -known
	}
	return known
}

// ranked is a rule with the place of its conditions.
type ranked struct {
	*Rule
	conditions *node
}

// reach names rules that no event reaches: a fault behind an unconditional rule, and a
// warning behind rules that together match all events of its types. An event is deferred
// [notify.MaxTurn] times at most, and a LATER matches an event once; so a rule behind
// that many LATERs is reached.
func (r *reader) reach(rules []ranked) {
	slices.SortStableFunc(rules, func(a, b ranked) int { return cmp.Compare(a.Priority, b.Priority) })
	ended := map[notify.EventType]int{} // so many decisions of an event end before the next rule
	by := map[notify.EventType]string{} // the rule that ends the last of them
	unconditional := 0                  // of so many decisions of every event
	for _, rule := range rules {
		r.rule = rule.Name
		matches, reached, always, shadow := false, false, true, ""
		for _, t := range notify.EventTypes {
			known := rule.Conditions.of(t)
			always = always && known == yes
			if known == no {
				continue
			}
			matches = true
			if ended[t] > notify.MaxTurn {
				shadow = by[t]
				continue
			}
			reached = true
			if t == notify.Security && rule.Action.Outcome == notify.Never {
				r.warn(rule.conditions, "this NEVER can match SECURITY: exclude it by event_type, unless that is meant")
			}
			if known == yes {
				by[t] = rule.Name
				ended[t] += rule.ends()
			}
		}
		switch {
		case !matches:
			r.warn(rule.conditions, "these conditions match no event: correct or disable the rule")
		case !reached:
			r.add(rule.conditions, Fault{
				Warning: unconditional <= notify.MaxTurn,
				Text:    fmt.Sprintf("the rule is never reached: rule %q before it matches all its events: change the order, or disable it", shadow),
			})
		}
		if always {
			unconditional += rule.ends()
		}
	}
	r.rule = ""
}

// ends returns how many decisions of an event a rule that matches it ends.
func (r *Rule) ends() int {
	if r.Action.Outcome == notify.Later {
		return 1
	}
	return notify.MaxTurn + 1
}
