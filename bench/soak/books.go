package main

import (
	"fmt"
	"strings"
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
