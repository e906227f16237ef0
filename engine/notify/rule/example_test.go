package rule_test

import (
	"fmt"

	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
)

func ExampleRead() {
	_, faults := rule.Read([]byte(`{
  "version": "1",
  "rules": [{
    "rule_id": "5f0c54f2-7a3e-4d0b-9a57-3f4c1de0a001", "name": "promo-at-night", "priority": 10, "version": "1.0.0",
    "conditions": {"field": "local_our", "operator": "gte", "value": "20"},
    "action": {"outcome": "LATER", "reason_code": "PROMO_AT_NIGHT"}
  }]
}`))
	for _, fault := range faults {
		fmt.Println(fault)
	}
	// Output:
	// line 5, $.rules[0].conditions.field: rule "promo-at-night": unknown field "local_our": did you mean "local_hour"?
	// line 5, $.rules[0].conditions.value: rule "promo-at-night": gte compares numbers, found a string
	// line 6, $.rules[0].action: rule "promo-at-night": LATER needs a defer_strategy: add one
}

func ExampleCompile() {
	document, _ := rule.Read(rule.Default())
	set := rule.Compile(document, notify.Local{})
	event := &notify.Notification{Type: notify.Alert, Hint: notify.Critical, Source: "payments"}
	action := set.Rules.Match(&notify.Input{Event: event}, nil)
	fmt.Println(action.Name, action.Outcome, action.Reason)

	event.Source = "reviews"
	fmt.Println(set.Rules.Match(&notify.Input{Event: event}, nil))
	fmt.Println(set.Rules.(*rule.Program).Near(&notify.Input{Event: event}))
	// Output:
	// critical-alert-now NOW CRITICAL_ALERT
	// <nil>
	// [critical-alert-now: asks for source in ["payments", "orders", "shipping", "platform"], found "reviews"]
}
