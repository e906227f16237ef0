package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"keyfold/engine/profile"
	"keyfold/source/catalog"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// Shares of what is published.
const (
	duplicates = 0.10
	poisoned   = 0.01
	unknown    = 0.003 // events of products that are not in the catalogue
	disorder   = 300   // how many events later one may come
)

// traffic is what a run publishes, in order, and the shop it is about.
type traffic struct {
	messages []rabbit.Message
	products []profile.Product
	logs     []string // names of the real logs in it
}

// newTraffic makes n messages of a seed: half of real logs where folder has
// some, half generated; a share of them is one user's.
func newTraffic(seed uint64, n int, folder string, busy float64) (*traffic, error) {
	r := rand.New(rand.NewPCG(seed, 0x74726166666963))
	t := &traffic{products: sample.Products()}
	real, err := t.realBodies(r, folder, n/2)
	if err != nil {
		return nil, err
	}
	config := sample.DefaultConfig(max(8, (n-len(real))/6))
	config.Seed, config.Repeats, config.Users = seed, 0, max(4, n/60)
	made := sample.Events(config)
	made = made[:min(len(made), n-len(real))]
	bodies := interleave(r, real, made)
	if busy > 0 {
		flood(r, bodies, busy)
	}
	t.messages = compose(r, bodies)
	return t, nil
}

// interleave merges two streams, each in its order.
func interleave(r *rand.Rand, a, b [][]byte) [][]byte {
	all := make([][]byte, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		if r.IntN(len(a)+len(b)) < len(a) {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return all
}

// compose makes messages of bodies: with poison, duplicates and disorder.
func compose(r *rand.Rand, bodies [][]byte) []rabbit.Message {
	names := rabbit.DefaultNames()
	var all []rabbit.Message
	for i, body := range bodies {
		switch x := r.Float64(); {
		case x < poisoned:
			body = poison(r, body)
		case x < poisoned+unknown:
			body = ofUnknownProduct(body, i)
		}
		e, err := profile.ParseEvent(body, time.Now())
		if err != nil {
			e = profile.Event{Type: profile.Search, MessageID: fmt.Sprintf("poison-%06d", i)}
		}
		m := names.EventMessage(body, &e)
		all = append(all, m)
		if r.Float64() < duplicates {
			all = append(all, m)
		}
	}
	// Each may change places with one up to disorder behind it: a duplicate
	// comes in the same window or much later.
	for i := range all {
		if j := i + r.IntN(disorder); r.IntN(3) == 0 && j < len(all) {
			all[i], all[j] = all[j], all[i]
		}
	}
	return all
}

// poison breaks a body in one of the ways a producer does.
func poison(r *rand.Rand, body []byte) []byte {
	switch r.IntN(6) {
	case 0:
		return body[:len(body)/2]
	case 1:
		return changed(body, "user_id", "seventeen")
	case 2:
		return changed(body, "event_type", "product_stolen")
	case 3:
		return changed(body, "version", "9.9")
	case 4:
		return changed(body, "occurred_at", "2199-01-01T00:00:00+00:00")
	default:
		return append([]byte{0xff, 0xfe, 0}, body...)
	}
}

// ofUnknownProduct makes an event of a product that is not in the catalogue. Its id is
// its own, because no profile keeps it.
func ofUnknownProduct(body []byte, number int) []byte {
	body = changed(body, "message_id", fmt.Sprintf("unknown-%06d", number))
	body = changed(body, "event_type", "product_view")
	body = changed(body, "search_phrase", nil)
	return changed(body, "product_id", 2_000_000_000)
}

func changed(body []byte, field string, value any) []byte {
	var m map[string]any
	decode := json.NewDecoder(bytes.NewReader(body))
	decode.UseNumber()
	if decode.Decode(&m) != nil {
		return body
	}
	m[field] = value
	out, _ := json.Marshal(m) // what was decoded can be encoded
	return out
}

// realBodies reads n valid events of the logs below folder, a stretch of each
// from a place the seed chooses, and adds their products to the shop.
func (t *traffic) realBodies(r *rand.Rand, folder string, n int) (bodies [][]byte, err error) {
	if folder == "" {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*", "events.ndjson.gz"))
	if err != nil {
		return nil, err
	}
	known := map[int32]bool{}
	for _, p := range t.products {
		known[p.ID] = true
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		if err := t.addProducts(filepath.Join(dir, "products.ndjson.gz"), known); err != nil {
			return nil, err
		}
		stretch, err := readStretch(path, r.IntN(5000), n/len(paths))
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, stretch...)
		t.logs = append(t.logs, filepath.Base(dir))
	}
	return bodies, nil
}

// addProducts takes in those of a log whose numbers are not taken.
func (t *traffic) addProducts(path string, known map[int32]bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for p, err := range catalog.ReadProducts(f) {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !known[p.ID] {
			known[p.ID] = true
			t.products = append(t.products, profile.Product{ID: p.ID, Name: p.Name, Category: p.Category})
		}
	}
	return nil
}

// readStretch returns n valid bodies of a log, after the first skip.
func readStretch(path string, skip, n int) (bodies [][]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for len(bodies) < n && lines.Scan() {
		if _, err := profile.ParseEvent(lines.Bytes(), time.Now()); err != nil {
			continue
		}
		if skip--; skip < 0 {
			bodies = append(bodies, bytes.Clone(lines.Bytes()))
		}
	}
	return bodies, lines.Err()
}
