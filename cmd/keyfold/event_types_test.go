package main

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"gonum.org/v1/gonum/floats"

	"keyfold/internal/testserver/must"
	"keyfold/service/profile/recommend"
	"keyfold/source/outbox"
)

// process runs a command to its end, in a process of its own: the types of a shop are a
// process's, and other tests of this one have none.
func (s *shop) process(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	program, log := asProcess(append(args, s.flags()...)...)
	program.Env = append(program.Env, s.env...)
	text, err := program.Output()
	if err != nil {
		err = fmt.Errorf("keyfold %s: %w\n%s", strings.Join(args, " "), err, log)
	}
	return string(text), err
}

// A shop's own event types go the whole way: from HTTP through the outbox and the queue into the
// profile, with their weights, also negative ones; into reasons and into a rebuild; a column
// that does not take them and a process that does not know them say so.
//
// Promise(event/own-types): Event types of EVENT_TYPES are known from the API to the reasons of recommendations, and folded with their weights, negative ones too.
func TestOwnEventTypes(t *testing.T) {
	s := newShop(t, outbox.PostgreSQL)
	s.importProducts(t)
	without := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
	s.env = append(s.env, "EVENT_TYPES=shop_wish=0.6,shop_return=-1,shop_question:phrase=0.2")
	if _, err := s.process(t, "outbox", "stats"); err == nil || !strings.Contains(err.Error(), "does not take shop_wish, shop_return, shop_question of EVENT_TYPES: run `keyfold setup` with this setting") {
		t.Errorf("a column that was not changed: %v", err)
	}
	if _, err := s.process(t, "setup"); err != nil {
		t.Fatal(err)
	}
	relay, _ := s.spawn(t, "relay")
	relay.ready()
	ingest, _ := s.spawn(t, "ingest", "--http-addr=127.0.0.1:0")
	ingest.ready()
	worker, _ := s.spawn(t, "work", quick)
	worker.ready()

	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	event := func(user int, kind, target string, after time.Duration) []byte {
		return fmt.Appendf(nil, `{"user_id":%d,"event_type":%q,%s,"occurred_at":%q}`, user, kind, target, at.Add(after).Format(time.RFC3339))
	}
	product := func(i int) string { return fmt.Sprintf(`"product_id":%d`, s.products[i].ID) }
	if a := without.post(event(1, "shop_wish", product(1), 0)); a.Code != http.StatusBadRequest || !strings.Contains(a.Text, "unknown_event_type") {
		t.Errorf("ingest without the setting: %d %s", a.Code, a.Text)
	}
	ingest.accepted(
		event(1, "product_purchase", product(0), 0), event(1, "shop_wish", product(1), time.Minute), event(1, "shop_return", product(0), 2*time.Minute),
		event(1, "shop_return", product(2), 3*time.Minute), event(1, "product_view", product(3), 4*time.Minute),
		event(2, "product_purchase", product(0), 0), event(2, "shop_return", product(0), time.Minute),
		event(3, "shop_question", `"search_phrase":"which boots"`, 0), event(3, "product_view", product(0), time.Minute),
	)
	var stored struct {
		Vector []float64 `bson:"embedding"`
		Mass   float64   `bson:"mass"`
		Events int64     `bson:"event_count"`
		Last   string    `bson:"last_event_type"`
	}
	profiles := s.collection(t)
	for user, events := range map[int]int64{1: 5, 2: 2, 3: 2} {
		eventually(t, fmt.Sprintf("the events of user %d are folded", user), func() error {
			err := profiles.FindOne(t.Context(), bson.D{{Key: "user_id", Value: user}}).Decode(&stored)
			if err == nil && stored.Events != events {
				err = fmt.Errorf("%d of %d events are folded\n%s", stored.Events, events, worker.log)
			}
			return err
		})
	}
	must.OK(t, profiles.FindOne(t.Context(), bson.D{{Key: "user_id", Value: 1}}).Decode(&stored))
	want := s.sum(t, map[int]float64{0: 1 - math.Exp(0.023*2/1440), 1: 0.6 * math.Exp(0.023/1440), 2: -math.Exp(0.023 * 3 / 1440), 3: 0.3 * math.Exp(0.023*4/1440)})
	floats.Scale(math.Exp(-0.023*4/1440), want) // at the time of the view
	mass := floats.Norm(want, 2)
	floats.Scale(1/mass, want)
	if d := floats.Distance(stored.Vector, want, math.Inf(1)); !(d <= 1e-9) || math.Abs(stored.Mass-mass) > 1e-9 || stored.Last != "product_view" {
		t.Errorf("the vector differs by %g, the mass is %v (want %v), the last a %s", d, stored.Mass, mass, stored.Last)
	}

	api, _ := s.spawn(t, "serve", "--http-addr=127.0.0.1:0")
	r := asking{t, serveListening.FindStringSubmatch(api.ready().log.String())[1]}
	var a recommend.Answer
	if status, text := r.get("/v1/users/1/recommendations?k=3&explain=true", &a); status != 200 || a.Basis != recommend.ByProfile || !strings.Contains(text, "shop_wish") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.get("/v1/users/2/recommendations?k=3", &a); status != 200 || a.Basis != recommend.ByPopularity {
		t.Errorf("what was bought was returned: %d %s", status, text)
	}
	if out, err := s.process(t, "user", "rebuild", "1", "--dry-run", "-o", "json"); err != nil || !strings.Contains(out, `"unchanged":1`) {
		t.Errorf("a rebuild makes another profile: %v %s", err, out)
	}
	if code, out, errs := s.run(t, "user", "rebuild", "1", "--dry-run"); code == 0 || !strings.Contains(errs, "EVENT_TYPES names those of the shop") ||
		!strings.Contains(errs, "of which the history lacks at least 3") {
		t.Errorf("a rebuild without the setting: %d %s %s", code, out, errs)
	}
}

// sum returns the sum of the products' unit vectors, by their place in the shop's catalogue,
// each as often as it counts.
func (s *shop) sum(t *testing.T, counts map[int]float64) (sum []float64) {
	t.Helper()
	products := s.collection(t).Database().Collection("product_embeddings")
	for i, n := range counts {
		var p struct {
			Vector []float64 `bson:"embedding"`
		}
		must.OK(t, products.FindOne(t.Context(), bson.D{{Key: "product_id", Value: s.products[i].ID}}).Decode(&p))
		floats.Scale(1/floats.Norm(p.Vector, 2), p.Vector)
		if sum == nil {
			sum = make([]float64, len(p.Vector))
		}
		floats.AddScaled(sum, n, p.Vector)
	}
	return sum
}
