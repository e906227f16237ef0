package main

import "testing"

func TestUnbalanced(t *testing.T) {
	figures := map[string]float64{
		`keyfold_rabbitmq_delivered_total{queue="a"}`: 6, `keyfold_events_total{queue="a",outcome="decided"}`: 3,
		`keyfold_events_total{queue="a",outcome="dead"}`: 1, `keyfold_rabbitmq_returned_total{queue="a"}`: 1, `keyfold_rabbitmq_in_hand{queue="a"}`: 1,
	}
	if err := unbalanced(figures); err != nil {
		t.Error(err)
	}
	figures[`keyfold_events_total{queue="a",outcome="dead"}`]++
	if unbalanced(figures) == nil {
		t.Error("one too many is not found")
	}
	if err := unbalanced(map[string]float64{"keyfold_rabbitmq_delivered_total": 2, `keyfold_events_total{outcome="folded"}`: 1, "keyfold_rabbitmq_in_hand": 1}); err != nil {
		t.Error(err)
	}
}
