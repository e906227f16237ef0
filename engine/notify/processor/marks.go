package processor

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"keyfold/engine/failpoint"
)

// marks are events whose dispatch was confirmed, until the ledger has written it.
type marks struct {
	mu     sync.Mutex
	queued map[uuid.UUID]bool // true: a commit under way has it
}

// add queues a mark.
func (m *marks) add(event uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queued == nil {
		m.queued = map[uuid.UUID]bool{}
	}
	m.queued[event] = false
}

// has reports whether an event's mark waits to be written.
func (m *marks) has(event uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.queued[event]
	return ok
}

// take returns the marks that no other commit has.
func (m *marks) take() (events []uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for event, under := range m.queued {
		if !under {
			events = append(events, event)
			m.queued[event] = true
		}
	}
	return events
}

// taken counts marks that are written, and queues the others again.
func (p *Processor) taken(events []uuid.UUID, written bool) {
	p.marks.taken(events, written)
	if written {
		p.stats.Marked.Add(int64(len(events)))
	}
}

func (m *marks) taken(events []uuid.UUID, written bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, event := range events {
		if written {
			delete(m.queued, event)
		} else {
			m.queued[event] = false
		}
	}
}

// Mark writes the marks that are queued, without waiting for the next commit.
func (p *Processor) Mark(ctx context.Context) error {
	events := p.marks.take()
	if len(events) == 0 {
		return nil
	}
	errs := p.ports.Ledger.Commit(ctx, nil, events)
	err := errorOf(errs...)
	p.taken(events, err == nil)
	if err != nil {
		return fmt.Errorf("mark %d dispatches: %w", len(events), err)
	}
	failpoint.Reach(failpoint.Marked)
	return nil
}
