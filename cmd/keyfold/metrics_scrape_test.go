package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/sample"
)

// A page of a worker that folds 1,000 events a second stays below 100 KiB. How long it takes is
// told, and asserted nowhere: `KEYFOLD_SOAK=1 go test -run TestScrapeOfALoadedWorker -v ./cmd/keyfold`
// scrapes 1,000 times.
func TestScrapeOfALoadedWorker(t *testing.T) {
	s := newStack(t)
	p := s.program(t)
	p.ready()
	scrapes, folded := 5, int64(100)
	if long {
		scrapes, folded = 1000, 500
	}
	feed := newFeed(t, s)
	eventually(t, "the worker folds", func() error {
		feed()
		if n := p.metric(`keyfold_events_total{outcome="folded"}`); n < folded {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	page := "http://" + adminAddr.FindStringSubmatch(p.log.String())[1] + "/metrics"
	took, largest, done := make([]time.Duration, scrapes), 0, make(chan error)
	go func() {
		for i := range took {
			time.Sleep(20 * time.Millisecond) // a scraper's pause; what is told is of many of them
			at := time.Now()
			n, err := readAll(page)
			if took[i], largest = time.Since(at), max(largest, n); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	before, began := p.metric(`keyfold_events_total{outcome="folded"}`), time.Now()
	for scraping := true; scraping; {
		select {
		case err := <-done:
			must.OK(t, err)
			scraping = false
		case <-time.After(40 * time.Millisecond):
			feed()
		}
	}
	rate := float64(p.metric(`keyfold_events_total{outcome="folded"}`)-before) / time.Since(began).Seconds()
	slices.Sort(took)
	t.Logf("%d scrapes at %.0f events/s: median %v, p99 %v, slowest %v; the largest page has %d bytes",
		scrapes, rate, took[scrapes/2], took[scrapes*99/100], took[scrapes-1], largest)
	if largest >= 100<<10 {
		t.Errorf("a page has %d bytes", largest)
	}
}

// readAll reads a page over the connection of the last time, as Prometheus does, and returns
// its length.
func readAll(url string) (int, error) {
	res, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	page, err := io.ReadAll(res.Body)
	return len(page), errors.Join(err, res.Body.Close())
}

// newFeed returns what publishes 50 further events of products that there are.
func newFeed(t *testing.T, s *stack) func() {
	products, n := sample.Products(), 0
	return func() {
		bodies := make([][]byte, 50)
		for i := range bodies {
			n++
			bodies[i] = event(int32(n%500+1), profile.ProductView, products[n%len(products)].ID, time.Now(), fmt.Sprint("load ", n))
		}
		s.publish(t, bodies...)
	}
}
