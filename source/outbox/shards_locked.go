package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
)

// lockedShards are those with rows to send that this relay finds locked, again and again.
// Another relay that works lets a shard go within a few seconds, with its oldest row sent. A
// lock behind which that row stays is another program's, or that of a process that stands
// still.
type lockedShards struct {
	bound time.Duration // of a lock behind which no row is sent

	mu    sync.Mutex
	own   map[int]int // goroutines of this relay that have a shard; two for a moment
	found map[int]lockedShard
	began time.Time // of the fault; zero: there is none
	err   error     // of the fault, once it is known what has the lock
}

type lockedShard struct {
	head  int64 // id of the shard's oldest row
	since time.Time
}

// hold notes that this relay has shards, until the function it returns is called.
func (l *lockedShards) hold(shards []int) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		l.own, l.found = map[int]int{}, map[int]lockedShard{}
	}
	for _, shard := range shards {
		l.own[shard]++
		delete(l.found, shard)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, shard := range shards {
			if l.own[shard]--; l.own[shard] == 0 {
				delete(l.own, shard)
			}
		}
	}
}

// missed notes which shards were wanted and not leased. It returns how many are locked for
// longer than the bound, and whether that begins a fault.
func (l *lockedShards) missed(wanted, leased []int, heads map[int]int64, now time.Time) (stuck int, begins bool) {
	defer l.hold(leased)()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, shard := range wanted {
		known, again := l.found[shard]
		if l.own[shard] == 0 && (!again || known.head != heads[shard]) {
			l.found[shard] = lockedShard{heads[shard], now}
		}
	}
	if stuck = l.stuck(now); stuck == 0 || !l.began.IsZero() {
		return stuck, false
	}
	l.began = now
	return stuck, true
}

// seen forgets the shards whose oldest row was sent, and reports whether that, or a lease
// since, ends a fault, and how long it lasted.
func (l *lockedShards) seen(heads map[int]int64, now time.Time) (lasted time.Duration, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, known := range l.found {
		if heads[shard] != known.head {
			delete(l.found, shard)
		}
	}
	if l.began.IsZero() || l.stuck(now) > 0 {
		return 0, false
	}
	lasted = now.Sub(l.began).Round(time.Millisecond)
	l.began, l.err = time.Time{}, nil
	return lasted, true
}

func (l *lockedShards) stuck(now time.Time) (n int) {
	for _, known := range l.found {
		if now.Sub(known.since) >= l.bound {
			n++
		}
	}
	return n
}

// says notes what has the lock, unless that is over.
func (l *lockedShards) says(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began.IsZero() {
		l.err = err
	}
}

func (l *lockedShards) fault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// watchLocks notes which of the wanted shards others have locked, and logs when a lock turns
// out to be no working relay's.
func (r *Relay) watchLocks(ctx context.Context, wanted, leased []int, heads map[int]int64) {
	stuck, begins := r.locked.missed(wanted, leased, heads, time.Now())
	if !begins {
		return
	}
	err := r.db.locked(ctx, fmt.Sprintf("%d shards with events have been locked for %v and more", stuck, r.locked.bound), errLockedShards, "keyfold_relay_shards")
	r.locked.says(err)
	r.log.Error("events of some users are not published: they wait in the database", slog.Any("error", err), slog.String("hint", lockHint))
}

var errLockedShards = errors.New("SELECT ... FOR UPDATE SKIP LOCKED finds none of their rows")

const lockHint = "end that transaction; publishing goes on by itself, and no event is lost"

// noteHeads ends the fault of locked shards once their rows are sent.
func (r *Relay) noteHeads(heads map[int]int64) {
	if lasted, ended := r.locked.seen(heads, time.Now()); ended {
		r.log.Info("the relay goes on: the lock is over", slog.Duration("away_for", lasted))
	}
}

// blocked is [Database.fault] for what may have waited for a lock in vain.
func (r *Relay) blocked(ctx context.Context, doing string, err error) error {
	class := r.db.dialect.classify(err)
	if class == classLocked || class == classCollision || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return r.db.locked(ctx, doing, err, "keyfold_relay_shards", "user_interactions")
	}
	return r.db.fault(doing, err)
}

// reasonLocked is the reason of a fault that another program's lock is.
const reasonLocked = "locked"

// holderTime bounds the question which transaction has a lock.
const holderTime = 3 * time.Second

// locked describes a wait for a lock on tables that ended without it, with what holds the
// lock, where the database tells. A server that does not answer that question either is away.
func (d *Database) locked(ctx context.Context, doing string, err error, tables ...string) error {
	bounded, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	conn, away := d.pool.Conn(bounded)
	var holder string
	if away == nil {
		if away = conn.PingContext(bounded); away == nil {
			holder = d.dialect.holder(bounded, conn, tables...)
		}
		_ = conn.Close() // the pool's again
	}
	if away != nil {
		return fmt.Errorf("outbox: %s: the database is %w: it gives no answer: %w", doing, engine.ErrAway, errors.Join(err, away))
	}
	text := cmp.Or(holder, "see which one stays open (SHOW FULL PROCESSLIST, SHOW ENGINE INNODB STATUS, pg_locks)")
	return &engine.Error{Kind: engine.Transient, Reason: reasonLocked, Err: fmt.Errorf("outbox: %s: another transaction has locked %s: %s: %w", doing, anyTable(tables), text, err)}
}

func anyTable(tables []string) string {
	if len(tables) == 1 {
		return tables[0]
	}
	return tables[0] + " or " + tables[1]
}
