package kubernetes

import (
	"math"
	"slices"
	"testing"
	"time"
)

// hpa does what Kubernetes' HorizontalPodAutoscaler does every 15 s with one metric of
// the type Value and one policy in pods for each direction: "Horizontal Pod Autoscaling",
// algorithm details and configurable scaling behavior.
type hpa struct {
	lowest, highest int
	target          float64
	up, down        rules
	now             time.Duration
	replicas        int
	wanted, changes []at
}

type rules struct {
	window, period time.Duration
	pods           int
}

type at struct {
	when time.Duration
	n    int
}

func (h *hpa) step(metric float64) {
	h.now += 15 * time.Second
	want := h.replicas
	if ratio := metric / h.target; math.Abs(ratio-1) > 0.1 {
		want = int(math.Ceil(ratio * float64(h.replicas)))
	}
	// The stabilisation windows: the lowest wish for more, the highest for fewer.
	more, fewer := want, want
	for _, w := range h.wanted {
		if w.when > h.now-h.up.window {
			more = min(more, w.n)
		}
		if w.when > h.now-h.down.window {
			fewer = max(fewer, w.n)
		}
	}
	h.wanted = append(h.wanted, at{h.now, want})
	next := min(max(h.replicas, more), fewer)
	// The policies: so many pods in a period.
	next = min(next, h.replicas-h.changed(h.up.period, 1)+h.up.pods)
	next = max(next, h.replicas-h.changed(h.down.period, -1)-h.down.pods)
	next = min(max(next, h.lowest), h.highest)
	if next != h.replicas {
		h.changes = append(h.changes, at{h.now, next - h.replicas})
		h.replicas = next
	}
}

// changed sums what was added (sign 1) or removed (-1) within the period.
func (h *hpa) changed(period time.Duration, sign int) (n int) {
	for _, c := range h.changes {
		if c.when > h.now-period && c.n*sign > 0 {
			n += c.n
		}
	}
	return n
}

// dig returns the value behind a path of an object.
func dig(t *testing.T, value any, path ...string) any {
	t.Helper()
	for _, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %v", name, value)
		}
		value = fields[name]
	}
	return value
}

func number(t *testing.T, value any, path ...string) int {
	t.Helper()
	n, ok := dig(t, value, path...).(int)
	if !ok {
		t.Fatalf("%v is no integer", path)
	}
	return n
}

// autoscaler returns the manifest's, at a number of workers that has been right for an
// hour, and its formula.
func autoscaler(t *testing.T, replicas int) (h *hpa, answer func(ready, age float64) float64) {
	t.Helper()
	objects, err := Check("../../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o map[string]any) bool { return o["kind"] == "ScaledObject" })
	spec := objects[i]["spec"]
	direction := func(name string) rules {
		behavior := dig(t, spec, "advanced", "horizontalPodAutoscalerConfig", "behavior", name)
		policies := dig(t, behavior, "policies").([]any)
		if len(policies) != 1 || dig(t, policies[0], "type") != "Pods" {
			t.Fatalf("the policies are %v", policies)
		}
		return rules{
			window: time.Duration(number(t, behavior, "stabilizationWindowSeconds")) * time.Second,
			period: time.Duration(number(t, policies[0], "periodSeconds")) * time.Second,
			pods:   number(t, policies[0], "value"),
		}
	}
	modifiers := dig(t, spec, "advanced", "scalingModifiers")
	if dig(t, modifiers, "target") != "1" || dig(t, modifiers, "metricType") != "Value" {
		t.Fatalf("the modifiers are %v", modifiers)
	}
	h = &hpa{
		lowest: number(t, spec, "minReplicaCount"), highest: number(t, spec, "maxReplicaCount"), target: 1,
		up: direction("scaleUp"), down: direction("scaleDown"), replicas: replicas, now: time.Hour,
	}
	for when := time.Duration(0); when <= h.now; when += 15 * time.Second {
		h.wanted = append(h.wanted, at{when, replicas})
	}
	return h, func(ready, age float64) float64 {
		got, err := formulaOf(dig(t, modifiers, "formula").(string), map[string]any{"ready": ready, "age": age})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// The specification's policy: 3 to 10 workers; more than 1000 messages for 2 minutes add
// 2; fewer than 100 for 10 minutes remove 1.
func TestPolicy(t *testing.T) {
	type phase struct {
		lasts      time.Duration
		ready, age float64
	}
	const minute, hour = time.Minute, time.Hour
	for name, test := range map[string]struct {
		from   int
		phases []phase
		to     []int           // the number of workers after each change
		after  []time.Duration // when, at the earliest; at the latest 30 s later
	}{
		"1001 add 2 every 2 minutes, up to 10": {3, []phase{{hour, 1001, 0}}, []int{5, 7, 9, 10}, []time.Duration{2 * minute, 4 * minute, 6 * minute, 8 * minute}},
		"under 2 minutes are too short":        {3, []phase{{105 * time.Second, 5000, 0}, {minute, 500, 0}, {105 * time.Second, 5000, 0}, {5 * minute, 500, 0}}, nil, nil},
		"100 to 1000 change nothing":           {7, []phase{{hour, 1000, 60}, {hour, 100, 0}}, nil, nil},
		"99 remove 1 every 10 minutes, down to 3": {
			6,
			[]phase{{2 * hour, 99, 0}},
			[]int{5, 4, 3},
			[]time.Duration{10 * minute, 20 * minute, 30 * minute},
		},
		"under 10 minutes are too short":          {10, []phase{{9 * minute, 0, 0}, {minute, 500, 0}, {9 * minute, 0, 0}, {minute, 500, 0}}, nil, nil},
		"few messages that are old are a backlog": {3, []phase{{3 * minute, 90, 61}}, []int{5}, []time.Duration{2 * minute}},
	} {
		t.Run(name, func(t *testing.T) {
			h, answer := autoscaler(t, test.from)
			start := h.now
			for _, p := range test.phases {
				for end := h.now + p.lasts; h.now < end; {
					h.step(answer(p.ready, p.age))
				}
			}
			if len(h.changes) != len(test.to) {
				t.Fatalf("the changes are %v", h.changes)
			}
			workers := test.from
			for i, c := range h.changes {
				workers += c.n
				if late := c.when - start - test.after[i]; workers != test.to[i] || late < 0 || late > 30*time.Second {
					t.Errorf("change %d: %d workers after %s", i, workers, c.when-start)
				}
			}
		})
	}
}
