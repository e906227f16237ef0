package memory

import "github.com/google/uuid"

// Drop deletes the record of a decision and nothing else.
func (l *Ledger) Drop(decision uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.decisions[decision]
	delete(l.decisions, decision)
	u := l.users[d.Record.UserID]
	for i := range u.records {
		if u.records[i] == d {
			u.records = append(u.records[:i:i], u.records[i+1:]...)
			break
		}
	}
}
