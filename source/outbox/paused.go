package outbox

import (
	"sync"
	"time"

	"keyfold/engine"
)

// pausedUsers remembers the users whose oldest row was refused, by the relay's own
// clock: another relay that gets their shard may try sooner.
type pausedUsers struct {
	first, longest time.Duration // waits

	mu    sync.Mutex
	users map[int32]hold
}

type hold struct {
	wait         time.Duration // the last one
	since, until time.Time
}

// pause holds a user back, twice as long as the last time.
func (h *pausedUsers) pause(user int32, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == nil {
		h.users = map[int32]hold{}
	}
	wait := min(max(h.first, 2*h.users[user].wait), h.longest)
	h.users[user] = hold{wait: wait, since: now, until: now.Add(wait)}
}

// resume forgets users.
func (h *pausedUsers) resume(users ...int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, user := range users {
		delete(h.users, user)
	}
}

// waiting returns the users of each shard that are to be left alone now. A hold
// that ended long ago is forgotten: its row may be another relay's by now.
func (h *pausedUsers) waiting(now time.Time) map[int][]int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	shards := map[int][]int32{}
	for user, hold := range h.users {
		switch {
		case now.Before(hold.until):
			shards[engine.SlotOf(user)] = append(shards[engine.SlotOf(user)], user)
		case now.Sub(hold.until) > 2*h.longest:
			delete(h.users, user)
		}
	}
	return shards
}

// since returns when the user was held back last; zero for one that is not.
func (h *pausedUsers) since(user int32) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users[user].since
}

// size returns how many users are held back.
func (h *pausedUsers) size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.users))
}
