package status

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/reach"
	"keyfold/service/status"
	"keyfold/source/rabbit/topology"
)

// dropping are the keys of policies by which a broker takes messages out of a queue, or
// the queue away.
var dropping = []string{"message-ttl", "max-length", "max-length-bytes", "expires"}

// policies are the definitions of a virtual host's policies.
type policies struct {
	named     map[string]map[string]any
	operators []operatorPolicy // the first one that matches counts
}

// operatorPolicy is on a queue beside its policy.
type operatorPolicy struct {
	Pattern    string         `json:"pattern"`
	Priority   int            `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// policies returns those of the virtual host.
func (m *management) policies(ctx context.Context) (p policies, err error) {
	var named []struct {
		Name       string         `json:"name"`
		Definition map[string]any `json:"definition"`
	}
	vhost := url.PathEscape(m.vhost)
	if err := m.get(ctx, "/api/policies/"+vhost, "", &named); err != nil {
		return p, err
	}
	if err := m.get(ctx, "/api/operator-policies/"+vhost, "", &p.operators); err != nil {
		return p, err
	}
	slices.SortStableFunc(p.operators, func(a, b operatorPolicy) int { return b.Priority - a.Priority })
	p.named = map[string]map[string]any{}
	for _, n := range named {
		p.named[n.Name] = n.Definition
	}
	return p, nil
}

// on returns what policies say of a queue.
func (p policies) on(q managedQueue) map[string]any {
	policy := maps.Clone(p.named[q.Policy])
	for _, o := range p.operators {
		if matches, err := regexp.MatchString(o.Pattern, q.Name); err == nil && matches {
			if policy == nil {
				policy = map[string]any{}
			}
			maps.Copy(policy, o.Definition)
			break
		}
	}
	return policy
}

// dropped names the keys of a queue's policy by which messages are lost; "": there are
// none. What expires in a queue with a net goes to the dead letters, and a full one
// refuses new messages.
func dropped(q managedQueue, policy map[string]any) string {
	arguments := map[string]any{}
	_ = json.Unmarshal(q.Arguments, &arguments) // an empty array where there are none
	has := func(key string) bool { return policy[key] != nil || arguments["x-"+key] != nil }
	overflow := arguments["x-overflow"]
	if overflow == nil || arguments["x-queue-type"] == string(topology.Quorum) && policy["overflow"] != nil {
		overflow = policy["overflow"] // of a quorum queue a policy is stronger than the argument
	}
	refuses := overflow == "reject-publish"
	var keys []string
	for _, key := range dropping {
		kept := key == "message-ttl" && has("dead-letter-exchange") || strings.HasPrefix(key, "max-length") && refuses
		if policy[key] != nil && !kept {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ", ")
}

// judgePolicies adds the policies by which events or dead letters are lost. No delay's queue has a
// consumer, so that one which expires goes with its events.
func judgePolicies(queues []status.Queue, managed map[string]managedQueue, p policies) (problems []status.Problem) {
	for _, q := range queues {
		if keys := dropped(managed[q.Name], p.on(managed[q.Name])); keys != "" {
			problems = append(problems, status.Problem{
				About: "policies", Text: fmt.Sprintf("a policy sets %s on queue %s: the broker drops messages in silence", keys, q.Name),
				Cure: "take the policy off this queue (`rabbitmqctl list_policies`); for a queue of events `keyfold setup` names one that keeps them",
			})
		}
	}
	return problems
}

// lookAtPolicies adds the policies by which messages are lost.
func lookAtPolicies(ctx context.Context, r *status.Report, m *management, queues []status.Queue, managed map[string]managedQueue) {
	p, err := m.policies(ctx)
	if err != nil {
		r.Notes = append(r.Notes, "policies were not looked at: "+err.Error())
		return
	}
	r.Problems = append(r.Problems, judgePolicies(queues, managed, p)...)
}

// LossyPolicies returns the policies by which the broker drops messages, where
// RABBITMQ_MANAGEMENT_URL is set.
func LossyPolicies(a *app.App, flags *reach.StatusFlags) ([]status.Problem, error) {
	base, err := flags.ManagementURL()
	if err != nil || base == nil {
		return nil, err
	}
	m, err := newManagement(base, a.Servers.RabbitMQ)
	if err != nil {
		return nil, err
	}
	managed, err := m.queues(a.Ctx)
	if err != nil {
		return nil, err
	}
	p, err := m.policies(a.Ctx)
	if err != nil {
		return nil, err
	}
	queues, _, err := expected(a)
	return judgePolicies(queues, managed, p), err
}
