package status

import (
	"encoding/json"
	"testing"
)

// What policies and the operator's policies set together decides, as at the broker; of the
// operator's the first that matches counts.
//
// Promise(rabbitmq/policies)
func TestPoliciesThatDropMessages(t *testing.T) {
	const net = `{"x-dead-letter-exchange":"","x-overflow":"reject-publish"}`
	ttl := map[string]any{"message-ttl": 1}
	for name, c := range map[string]struct {
		arguments string
		policy    map[string]any
		operators []operatorPolicy
		want      string
	}{
		"none":                       {`[]`, nil, nil, ""},
		"one":                        {`[]`, map[string]any{"message-ttl": 1, "max-length-bytes": 9, "queue-mode": "lazy"}, nil, "message-ttl, max-length-bytes"},
		"behind a net":               {net, map[string]any{"message-ttl": 1, "max-length": 3}, nil, ""},
		"a net cannot keep a queue":  {net, map[string]any{"expires": 1}, nil, "expires"},
		"a net by the policy":        {`{}`, map[string]any{"message-ttl": 1, "max-length": 3, "dead-letter-exchange": "", "overflow": "reject-publish"}, nil, ""},
		"another overflow stays":     {`{"x-overflow":"drop-head"}`, map[string]any{"max-length": 3, "overflow": "reject-publish"}, nil, "max-length"},
		"of the operator":            {`[]`, nil, []operatorPolicy{{"^user_", 0, ttl}}, "message-ttl"},
		"of the operator, beside":    {`[]`, map[string]any{"max-length": 3}, []operatorPolicy{{".*", 0, ttl}}, "message-ttl, max-length"},
		"of the operator, elsewhere": {`[]`, nil, []operatorPolicy{{"^other$", 9, ttl}}, ""},
		"the first that matches":     {`[]`, nil, []operatorPolicy{{"^user_", 9, map[string]any{"max-length": 3}}, {".*", 1, ttl}}, "max-length"},
	} {
		q := managedQueue{Name: "user_embedding_updates", Arguments: json.RawMessage(c.arguments)}
		p := policies{operators: c.operators}
		if c.policy != nil {
			q.Policy, p.named = "shop", map[string]map[string]any{"shop": c.policy, "other": ttl}
		}
		if got := dropped(q, p.on(q)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
