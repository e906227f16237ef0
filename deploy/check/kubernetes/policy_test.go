package kubernetes

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hpa does what Kubernetes' HorizontalPodAutoscaler does every 15 s with one metric of
// the type AverageValue and one policy in pods for each direction: GetExternalPerPodMetricReplicas
// and normalizeDesiredReplicasWithBehaviors in k8s.io/kubernetes/pkg/controller/podautoscaler.
// `make cluster` runs the real one.
type hpa struct {
	lowest, highest int
	target          float64
	up, down        rules
	now             time.Duration
	replicas        int
	surge           int // pods above replicas, as during a rollout
	ending          int // pods that a signal has ended and that write their windows: KEDA counts them, the HPA does not
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
	want := h.pods()
	if ratio := metric / h.target / float64(want); math.Abs(ratio-1) > 0.1 {
		want = int(math.Ceil(metric / h.target))
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

// pods counts those of the Deployment, ready or not.
func (h *hpa) pods() int { return h.replicas + h.surge }

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

// specOf returns the spec of one of the manifests' objects.
func specOf(t *testing.T, kind, name string) any {
	t.Helper()
	return specIn(t, "../../kubernetes", kind, name)
}

// withStreams returns an overlay with the component of streams.
func withStreams(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	err := os.CopyFS(filepath.Join(folder, "keyfold"), os.DirFS("../../kubernetes"))
	if err == nil {
		err = os.Mkdir(filepath.Join(folder, "shop"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "shop", "kustomization.yaml"), []byte("resources: [../keyfold]\ncomponents: [../keyfold/streams]\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "shop")
}

func specIn(t *testing.T, folder, kind, name string) any {
	t.Helper()
	objects, err := Check(folder)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o map[string]any) bool { return o["kind"] == kind && dig(t, o, "metadata", "name") == name })
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	return objects[i]["spec"]
}

// autoscaler returns the manifest's, at a number of workers that has been right for an
// hour, and its formula.
func autoscaler(t *testing.T, replicas int) (h *hpa, answer func(ready, arriving float64) float64) {
	t.Helper()
	h, all := autoscalerOf(t, specOf(t, "ScaledObject", "keyfold-worker"), replicas)
	return h, func(ready, arriving float64) float64 {
		return all(map[string]any{"ready": ready, "arriving": arriving})
	}
}

func autoscalerOf(t *testing.T, spec any, replicas int) (h *hpa, answer func(values map[string]any) float64) {
	t.Helper()
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
	// The type Value multiplies the READY pods: with none of them ready it never adds one, and removes some.
	if dig(t, modifiers, "target") != "1" || dig(t, modifiers, "metricType") != "AverageValue" {
		t.Fatalf("the modifiers are %v", modifiers)
	}
	h = &hpa{
		lowest: number(t, spec, "minReplicaCount"), highest: number(t, spec, "maxReplicaCount"), target: 1,
		up: direction("scaleUp"), down: direction("scaleDown"), replicas: replicas, now: time.Hour,
	}
	for when := time.Duration(0); when <= h.now; when += 15 * time.Second {
		h.wanted = append(h.wanted, at{when, replicas})
	}
	return h, func(values map[string]any) float64 {
		values["workers"] = float64(h.pods() + h.ending)
		got, err := formulaOf(dig(t, modifiers, "formula").(string), values)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// Only the broker is asked how much waits, so that no other server can hide a backlog: with a
// formula, KEDA has no answer where one trigger of several fails. The number of workers is
// that of the Deployment's pods.
//
// Promise(manifests/broker-only): A known backlog adds workers: pods count whether ready or not, and
// the broker alone is asked.
// Figure: `make cluster`: with no pod ready and no Prometheus 3, 5, 7, 9, 10
func TestOnlyTheBrokerIsAsked(t *testing.T) {
	met := map[string]any{}
	for _, trigger := range dig(t, specOf(t, "ScaledObject", "keyfold-worker"), "triggers").([]any) {
		met[dig(t, trigger, "name").(string)] = trigger
		if kind := dig(t, trigger, "type"); kind != "rabbitmq" && kind != "kubernetes-workload" {
			t.Errorf("a trigger asks %v", kind)
		}
	}
	for name, mode := range map[string]string{"ready": "QueueLength", "arriving": "MessageRate"} {
		if got := dig(t, met[name], "metadata", "mode"); got != mode {
			t.Errorf("%s is %v", name, got)
		}
	}
	selector := dig(t, met["workers"], "metadata", "podSelector")
	for name, value := range dig(t, specOf(t, "Deployment", "keyfold-worker"), "selector", "matchLabels").(map[string]any) {
		if selector != name+"="+value.(string) {
			t.Errorf("workers counts the pods %v, and the Deployment's are %s=%v", selector, name, value)
		}
	}
}

// The specification's policy: 3 to 10 workers; more than 1000 messages for 2 minutes add
// 2; fewer than 100 for 10 minutes remove 1. Whether the pods are ready makes no difference.
//
// Promise(manifests/autoscaler, manifests/broker-only)
func TestPolicy(t *testing.T) {
	type phase struct {
		lasts           time.Duration
		ready, arriving float64
		surge, ending   int
	}
	const minute, hour = time.Minute, time.Hour
	for name, test := range map[string]struct {
		from   int
		phases []phase
		to     []int           // the number of workers after each change
		after  []time.Duration // when, at the earliest; at the latest 30 s later
	}{
		"1001 add 2 every 2 minutes, up to 10": {3, []phase{{hour, 1001, 500, 0, 0}}, []int{5, 7, 9, 10}, []time.Duration{2 * minute, 4 * minute, 6 * minute, 8 * minute}},
		"under 2 minutes are too short": {
			3,
			[]phase{{105 * time.Second, 5000, 500, 0, 0}, {minute, 500, 500, 0, 0}, {105 * time.Second, 5000, 500, 0, 0}, {5 * minute, 500, 500, 0, 0}},
			nil, nil,
		},
		"100 to 1000 change nothing": {7, []phase{{hour, 1000, 20, 0, 0}, {hour, 100, 20, 0, 0}}, nil, nil},
		"99 remove 1 every 10 minutes, down to 3": {
			6,
			[]phase{{2 * hour, 99, 20, 0, 0}},
			[]int{5, 4, 3},
			[]time.Duration{10 * minute, 20 * minute, 30 * minute},
		},
		"under 10 minutes are too short":            {10, []phase{{9 * minute, 0, 20, 0, 0}, {minute, 500, 20, 0, 0}, {9 * minute, 0, 20, 0, 0}, {minute, 500, 20, 0, 0}}, nil, nil},
		"few messages that wait long are a backlog": {3, []phase{{3 * minute, 90, 1.4, 0, 0}}, []int{5}, []time.Duration{2 * minute}},
		"what waits and does not arrive is one":     {3, []phase{{3 * minute, 61, 0, 0, 0}}, []int{5}, []time.Duration{2 * minute}},
		"a rollout with few messages adds none":     {3, []phase{{8 * minute, 50, 20, 1, 0}, {hour, 50, 20, 0, 0}}, nil, nil},
		"a rollout of 2 minutes adds none":          {3, []phase{{105 * time.Second, 500, 20, 1, 0}, {hour, 500, 20, 0, 0}}, nil, nil},
		"a worker that ends is not missed":          {3, []phase{{45 * time.Second, 500, 20, 0, 1}, {hour, 500, 20, 0, 0}}, nil, nil},
		// The price of counting pods that are not ready: the HPA takes a surge's pod for a wanted one.
		"a longer one adds its surge": {3, []phase{{3 * minute, 500, 20, 1, 0}, {hour, 500, 20, 0, 0}}, []int{4}, []time.Duration{2 * minute}},
	} {
		t.Run(name, func(t *testing.T) {
			h, answer := autoscaler(t, test.from)
			start := h.now
			for _, p := range test.phases {
				h.surge, h.ending = p.surge, p.ending
				for end := h.now + p.lasts; h.now < end; {
					h.step(answer(p.ready, p.arriving))
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

// With streams, a lag of more than a minute adds workers as a queue's backlog does, and no worker
// is removed while one of the two is not small, or is not known.
//
// Promise(manifests/streams): With streams, a known lag adds workers, whether they are ready or not, and one that is not
// known removes none.
func TestPolicyOfStreams(t *testing.T) {
	spec := specIn(t, withStreams(t), "ScaledObject", "keyfold-worker")
	queries := map[string]string{}
	for _, trigger := range dig(t, spec, "triggers").([]any) {
		if dig(t, trigger, "type") == "prometheus" {
			queries[dig(t, trigger, "name").(string)] = dig(t, trigger, "metadata", "query").(string)
		}
	}
	// Where no worker tells anything, the queries answer all the same: without one, the queue's backlog would add none.
	for name, want := range map[string]string{"lag": ") or vector(45)", "unread": ") or vector(1)"} {
		if !strings.HasSuffix(queries[name], want) {
			t.Errorf("%s asks %q", name, queries[name])
		}
	}
	const minute = time.Minute
	for name, test := range map[string]struct {
		from, to                     int
		lasts                        time.Duration
		ready, arriving, lag, unread float64
	}{
		"a lag of more than a minute adds":      {3, 10, 10 * minute, 0, 0, 61, 0},
		"and under 2 minutes is too short":      {3, 3, 105 * time.Second, 0, 0, 600, 0},
		"also where streams are not read":       {3, 10, 10 * minute, 0, 0, 61, 2},
		"the queue's backlog adds":              {3, 10, 10 * minute, 1001, 500, 1, 0},
		"also where the lag is not known":       {3, 10, 10 * minute, 1001, 500, 45, 1},
		"a lag between changes nothing":         {7, 7, 60 * minute, 0, 0, 30, 0},
		"nor does one between on the other end": {7, 7, 60 * minute, 0, 0, 60, 0},
		"a small one removes":                   {6, 3, 60 * minute, 99, 20, 29, 0},
		"but not while a queue is not empty":    {6, 6, 60 * minute, 100, 20, 1, 0},
		"but not while a stream is not read":    {6, 6, 60 * minute, 0, 0, 0, 1},
		"but not where no worker tells a lag":   {6, 6, 60 * minute, 0, 0, 45, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, answer := autoscalerOf(t, spec, test.from)
			for end := h.now + test.lasts; h.now < end; {
				h.step(answer(map[string]any{"ready": test.ready, "arriving": test.arriving, "lag": test.lag, "unread": test.unread}))
			}
			if h.replicas != test.to {
				t.Errorf("%d workers became %d, want %d: %v", test.from, h.replicas, test.to, h.changes)
			}
		})
	}
}

// A stream is read by one worker at a time: there are as many as the workers may become.
func TestStreamsForAllWorkers(t *testing.T) {
	folder := withStreams(t)
	objects, err := Check(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o["kind"] == "ConfigMap" {
			streams, err := strconv.Atoi(dig(t, o, "data", "RABBITMQ_STREAMS").(string))
			if most := number(t, specIn(t, folder, "ScaledObject", "keyfold-worker"), "maxReplicaCount"); err != nil || streams < most || streams&(streams-1) != 0 {
				t.Errorf("%d streams for up to %d workers: %v", streams, most, err)
			}
			return
		}
	}
	t.Error("there is no ConfigMap")
}
