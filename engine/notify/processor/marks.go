package processor

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
)

// marks are events whose dispatch was confirmed or that expired before it, until the
// ledger has written it.
type marks struct {
	mu     sync.Mutex
	queued map[uuid.UUID]*mark // by event
}

type mark struct {
	notify.DispatchMark
	under bool // a commit under way has it
}

// add queues a mark.
func (m *marks) add(d notify.DispatchMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queued == nil {
		m.queued = map[uuid.UUID]*mark{}
	}
	m.queued[d.Event] = &mark{DispatchMark: d}
}

// has reports whether an event's mark waits to be written.
func (m *marks) has(event uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.queued[event]
	return ok
}

// take returns the marks that no other commit has.
func (m *marks) take() (all []notify.DispatchMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queued {
		if !q.under {
			all = append(all, q.DispatchMark)
			q.under = true
		}
	}
	return all
}

// taken counts marks that are written, and queues the others again.
func (p *Processor) taken(all []notify.DispatchMark, written bool) {
	p.marks.taken(all, written)
	if written {
		p.stats.Marked.Add(int64(len(all)))
	}
}

func (m *marks) taken(all []notify.DispatchMark, written bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range all {
		switch q := m.queued[d.Event]; {
		case q == nil || !q.under: // queued anew meanwhile
		case written:
			delete(m.queued, d.Event)
		default:
			q.under = false
		}
	}
}

// Mark writes the marks that are queued, without waiting for the next commit.
func (p *Processor) Mark(ctx context.Context) error {
	taken := p.marks.take()
	if len(taken) == 0 {
		return nil
	}
	err := errorOf(p.ports.Ledger.Commit(ctx, nil, taken)...)
	p.taken(taken, err == nil)
	if err != nil {
		return fmt.Errorf("mark %d dispatches: %w", len(taken), err)
	}
	failpoint.Reach(failpoint.Marked)
	return nil
}
