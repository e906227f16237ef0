package main

import (
	"fmt"
	"net/http"
	"strings"

	"keyfold/engine/metric"
)

// balanced counts the scrapes whose books were right, in the figures of a worker.
const balanced = "soak_balanced_scrapes"

// unbalanced returns the first queue of a scrape whose deliveries do not add up: what was
// received is settled by one outcome, returned to the broker or in hand.
func unbalanced(figures map[string]float64) error {
	const received = "keyfold_rabbitmq_delivered_total"
	for name, n := range figures {
		queue, found := strings.CutPrefix(name, received)
		if !found {
			continue
		}
		settled := "keyfold_events_total" + strings.TrimSuffix(queue, "}")
		sum := figures["keyfold_rabbitmq_returned_total"+queue] + figures["keyfold_rabbitmq_in_hand"+queue]
		for other, m := range figures {
			if strings.HasPrefix(other, settled) {
				sum += m
			}
		}
		if sum != n {
			return fmt.Errorf("%s is %.0f, and %.0f are settled, returned or in hand", name, n, sum)
		}
	}
	return nil
}

// metric returns what the last scrape has read.
func (w *worker) metric(name string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.metrics[name]
}

// scrape remembers the worker's counters, where it answers.
func (w *worker) scrape() {
	code, body := w.get("/metrics")
	if code != http.StatusOK {
		return
	}
	read, err := metric.Parse(strings.NewReader(body))
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	read[balanced] = w.metrics[balanced] + 1
	if err := unbalanced(read); err != nil && w.wrong == "" {
		w.wrong = fmt.Sprintf("worker %d: %v", w.slot, err)
	}
	w.metrics = read
}
