package stream

import (
	"context"
	"sync"
)

// handover carries what came from the socket to a goroutine that may take its time. Its
// length is bounded by what the caller asked for: credits, or messages published.
type handover[T any] struct {
	mu    sync.Mutex
	queue []T
	wake  chan struct{} // signalled when there is something
}

func newHandover[T any]() handover[T] { return handover[T]{wake: make(chan struct{}, 1)} }

func (h *handover[T]) put(one T) {
	h.mu.Lock()
	h.queue = append(h.queue, one)
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// all takes what is there.
func (h *handover[T]) all() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := h.queue
	h.queue = nil
	return queue
}

// run hands over until ctx ends; each stops it earlier by false.
func (h *handover[T]) run(ctx context.Context, each func(T) bool) {
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
		for _, one := range h.all() {
			if !each(one) {
				return
			}
		}
	}
}
