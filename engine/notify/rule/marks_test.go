package rule

import (
	"strings"
	"testing"
)

// A repeat is looked for among the newest marks of its type. Caps that let more through
// within the duplicate window let a repeat be missed.
//
// Promise(notify-worker/duplicates): A repeated text is found among the newest 256 of its type, a near
// one among 64; precision on unseen pairs is at least 0.99.
// Figure: 59 of 200 repeats found (recall 0.29), 0 of 200 others
func TestMoreThanTheMarksOfAWindow(t *testing.T) {
	const missed = "$.policy.types.PROMO.duplicate_window: warning: up to "
	for name, c := range map[string]struct{ policy, want string }{
		"the shipped policy":           {`{}`, ""},
		"as many as there are marks":   {`{"caps":{"5m":250,"1h":250,"24h":128},"types":{"PROMO":{"duplicate_window":"48h","cooldown":"0s"}}}`, ""},
		"one more":                     {`{"caps":{"5m":250,"1h":250,"24h":129},"types":{"PROMO":{"duplicate_window":"48h","cooldown":"0s"}}}`, missed + "258 PROMO"},
		"a part of a cap's window":     {`{"caps":{"5m":250,"1h":250,"24h":129},"types":{"PROMO":{"duplicate_window":"24h1ms","cooldown":"0s"}}}`, missed + "258 PROMO"},
		"the least cap counts":         {`{"caps":{"5m":10,"1h":250,"24h":250},"types":{"PROMO":{"duplicate_window":"2h5m","cooldown":"0s"}}}`, ""},
		"the one of a day":             {`{"caps":{"5m":11,"1h":250,"24h":250},"types":{"PROMO":{"duplicate_window":"2h5m","cooldown":"0s"}}}`, ""},
		"no cap is low enough":         {`{"caps":{"5m":11,"1h":129,"24h":250},"types":{"PROMO":{"duplicate_window":"25h","cooldown":"0s"}}}`, missed + "500 PROMO"},
		"a pause lets fewer through":   {`{"caps":{"5m":250,"1h":250,"24h":250},"types":{"PROMO":{"duplicate_window":"48h","cooldown":"15m"}}}`, ""},
		"one that lets more through":   {`{"caps":{"5m":250,"1h":250,"24h":250},"types":{"PROMO":{"duplicate_window":"48h","cooldown":"10m"}}}`, missed + "289 PROMO"},
		"a type that no cap holds":     {`{"types":{"PROMO":{"capped":false,"duplicate_window":"48h","cooldown":"0s"}}}`, "$.policy.types.PROMO.duplicate_window: warning: no cap and no pause holds PROMO"},
		"such a one with a pause":      {`{"types":{"PROMO":{"capped":false,"duplicate_window":"48h","cooldown":"1h"}}}`, ""},
		"such a one, within an hour":   {`{"types":{"PROMO":{"capped":false,"duplicate_window":"1h","cooldown":"0s"}}}`, ""},
		"repeats are not looked for":   {`{"types":{"PROMO":{"capped":false,"duplicate_window":"0s","cooldown":"0s"}}}`, ""},
		"caps alone, of all the types": {`{"caps":{"5m":250,"1h":250,"24h":250},"types":{"REMINDER":{"duplicate_window":"48h","cooldown":"0s"}}}`, "$.policy.types.REMINDER.duplicate_window: warning: up to 500 REMINDER"},
		"a window of the shipped set":  {`{"types":{"PROMO":{"capped":false,"cooldown":"0s"}}}`, "$.policy.types.PROMO: warning: no cap and no pause holds PROMO"},
	} {
		found := faultsOf([]byte("{\"version\":\"1\",\"policy\":" + c.policy + ",\"rules\":[]}"))
		if c.want == "" && found != "" || !strings.Contains(found, c.want) || strings.Count(found, "warning") > 1 {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}
