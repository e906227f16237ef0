package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/failures"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// look counts what waits in the queue; of a broker that is away nothing is known.
func (m *measurement) look(r *report.Report) error {
	n, err := rabbit.Waiting(m.app.Ctx, m.app.Servers.RabbitMQ, m.partitions)
	switch {
	case m.app.Ctx.Err() != nil || engine.KindOf(err) != engine.Transient:
		return app.BrokerUnreached(err)
	case err != nil:
		return nil //nolint:nilerr // the broker is away: there is nothing to count
	}
	m.depths = append(m.depths, n)
	r.Point("queue", "ready", "events", float64(n))
	return nil
}

// read takes the events that are in profiles by now.
func (m *measurement) read() error {
	for users := range slices.Chunk(m.users(), 100) {
		profiles, err := m.store.Load(m.app.Ctx, users)
		if err != nil {
			return err
		}
		for _, p := range profiles {
			switch {
			case p == nil:
				continue
			case p.Erased():
				return fmt.Errorf("user %d was erased meanwhile, and workers drop its events: measure again when no `keyfold bench --clean` is at work", p.UserID)
			}
			for id, write := range p.Applied.All() {
				if due, waits := m.due[id]; waits {
					delete(m.due, id)
					m.toProfile.Add(write.At.Time().Sub(due) - m.ahead)
				}
			}
		}
	}
	return nil
}

// users are those that have events.
func (m *measurement) users() (all []int32) {
	for i, n := range m.counts {
		if n > 0 {
			all = append(all, m.first+int32(i))
		}
	}
	return all
}

// deadLetters counts the events that were given up.
func (m *measurement) deadLetters() (n int, err error) {
	if len(m.due) == 0 {
		return 0, nil
	}
	waits := maps.Clone(m.due)
	err = eachLetter(m.app, func(_ *deadletter.Scan, l *deadletter.Letter) error {
		id := profile.DigestOf(l.ID).ID()
		if _, ok := waits[id]; ok {
			delete(waits, id)
			n++
		}
		return nil
	})
	return n, err
}

// eachLetter calls do with each dead letter of a measurement's event.
func eachLetter(a *app.App, do func(*deadletter.Scan, *deadletter.Letter) error) error {
	return failures.Scan(a, func(s *deadletter.Scan) error {
		for l, err := range failures.Watched(a, s, "reading dead letters") {
			if err != nil {
				return err
			}
			if failures.UserIn(l.Body) < firstUser || !strings.HasPrefix(l.ID, ids) {
				continue
			}
			if err := do(s, l); err != nil {
				return err
			}
		}
		return a.Ctx.Err()
	})
}
