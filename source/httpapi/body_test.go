package httpapi

import (
	"net/http"
	"testing"
)

func TestFullMemory(t *testing.T) {
	h := newTestHandler(newMemory())
	h.memory.take("another", MaxInFlightBytes)
	w, answer := post(t, h, asJSON, view(1))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || answer.Errors[0].Reason != "busy" {
		t.Errorf("%d %+v", w.Code, answer)
	}
	h.memory.give("another", MaxInFlightBytes)
	if w, _ := post(t, h, asJSON, view(1)); w.Code != http.StatusAccepted {
		t.Errorf("status %d once there is room", w.Code)
	}
}
