package outbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"keyfold/engine"
)

// rounds publishes the rows of a batch, round by round. The first holds the oldest
// row of every user. Once it is confirmed, the next holds as many rows of a user
// as were confirmed before it, and one more: a user with one row waits for none,
// and one with many is sent as fast as the broker takes rows.
//
// The broker serves what one channel brings in its order. Where it refuses a row
// and takes one behind it (a queue that is full for a moment), the latter is not
// marked: it is sent again behind the refused one. Its second copy carries since
// when there may be a first one, which makes it a duplicate to the profile.
// Beginning every batch with one row keeps these copies few while the broker goes
// on refusing. Where the publisher takes all or nothing, [RelayConfig.WholeBatches]
// sends all at once.
type rounds struct {
	relay *Relay
	users []run     // with rows left, in the order of their oldest rows
	until time.Time // nothing is published behind it: another relay may have the shards by then

	fresh    []Row          // were not tried before this batch
	reached  map[int64]bool // ids of rows that the broker may have got
	sent     []Row
	failures []failure
	numbers  map[int]int64 // by shard: the highest of the noted groups, which have met their fates
	stop     error         // what stops the batch
}

// run is what is left of one user's rows.
type run struct {
	rows      []stored
	confirmed int // in this batch
}

// failure is the fate of a row that was not sent.
type failure struct {
	id        int64
	messageID string
	verdict   verdict // postponed or setAside
	attempts  int
	err       error
}

// text returns the error as it fits the column, behind its reason as [storedReason] finds it.
func (f *failure) text() string {
	const limit = 255
	text := []rune("[" + f.reason() + "] " + strings.ToValidUTF8(f.err.Error(), ""))
	return string(text[:min(len(text), limit)])
}

func (f *failure) reason() string {
	switch {
	case errors.Is(f.err, engine.ErrUnroutable):
		return "unroutable"
	case errors.Is(f.err, engine.ErrRefused):
		return "refused"
	}
	return engine.ReasonOf(f.err)
}

func newRounds(r *Relay, rows []stored) *rounds {
	w := &rounds{relay: r, reached: map[int64]bool{}}
	index := map[int32]int{}
	for _, row := range rows {
		i, known := index[row.Event.UserID]
		if !known {
			i = len(w.users)
			index[row.Event.UserID] = i
			w.users = append(w.users, run{})
		}
		w.users[i].rows = append(w.users[i].rows, row)
		if row.TriedAt == 0 {
			w.fresh = append(w.fresh, row.Row)
		}
	}
	return w
}

// untried returns the rows that were noted as tried for this batch and cannot
// have reached the broker.
func (w *rounds) untried() []Row {
	return slices.DeleteFunc(slices.Clone(w.fresh), func(row Row) bool { return w.reached[row.ID] })
}

// run publishes until nothing is left, the batch's time is over, or the
// publisher cannot go on.
func (w *rounds) run(ctx, work context.Context) {
	deadline := time.Now().Add(w.relay.config.BatchTime)
	for w.dropUnreadable(); len(w.users) > 0; w.dropUnreadable() {
		rows, going := w.next()
		if w.relay.limiter.WaitN(ctx, len(rows)) != nil {
			return // ctx ended
		}
		if !time.Now().Before(w.until) {
			w.stop = errFrozen
			return
		}
		w.judgeAll(rows, going, w.relay.publish(work, rows))
		if w.stop != nil || ctx.Err() != nil || !time.Now().Before(deadline) {
			return
		}
	}
}

// next returns the rows of a round, user by user, and how many each user has.
func (w *rounds) next() (rows []Row, going []int) {
	rows, going = make([]Row, 0, len(w.users)), make([]int, len(w.users))
	for i := range w.users {
		going[i] = w.runLength(&w.users[i])
		for k := range going[i] {
			rows = append(rows, w.users[i].rows[k].Row)
		}
	}
	return rows, going
}

// judgeAll notes what became of a round and keeps the rows that may follow.
func (w *rounds) judgeAll(rows []Row, going []int, errs []error) {
	now := time.Now()
	left, at := w.users[:0], 0
	for i, user := range w.users {
		goesOn := true
		for k := at; k < at+going[i]; k++ {
			if err := errs[k]; err == nil || errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrUnknown) {
				w.reached[rows[k].ID] = true
			}
			goesOn = goesOn && w.judge(&rows[k], errs[k], now)
		}
		at += going[i]
		user.rows, user.confirmed = user.rows[going[i]:], user.confirmed+going[i]
		if goesOn && len(user.rows) > 0 {
			left = append(left, user)
		}
	}
	w.users = left
	if refusesEverybody(len(going), errs) {
		w.stop = errs[0]
	}
}

// runLength returns how many of the user's leading rows, of which the first can be
// read, are published in this round.
func (w *rounds) runLength(user *run) int {
	most := len(user.rows)
	if !w.relay.config.WholeBatches {
		most = min(most, user.confirmed+1)
	}
	n := 1
	for n < most && user.rows[n].fault == nil {
		n++
	}
	return n
}

// refusesEverybody reports whether a broker refused so many users' rows, and
// took none, that it has to be the broker: a queue that is missing or full.
func refusesEverybody(users int, errs []error) bool {
	const many = 16
	for _, err := range errs {
		if !errors.Is(err, engine.ErrUnroutable) && !errors.Is(err, engine.ErrRefused) {
			return false
		}
	}
	return users >= many
}

// dropUnreadable sets the rows at the front aside that hold no event.
func (w *rounds) dropUnreadable() {
	for i := range w.users {
		user := &w.users[i]
		for len(user.rows) > 0 && user.rows[0].fault != nil {
			w.fail(&user.rows[0].Row, setAside, user.rows[0].fault)
			user.rows = user.rows[1:]
		}
	}
	w.users = slices.DeleteFunc(w.users, func(user run) bool { return len(user.rows) == 0 })
}

func (r *Relay) publish(work context.Context, rows []Row) []error {
	return r.timed(work, len(rows), func(ctx context.Context) []error { return r.publisher.Publish(ctx, rows) })
}

// timed bounds and measures a call of the publisher for so many rows.
func (r *Relay) timed(work context.Context, rows int, publish func(context.Context) []error) []error {
	ctx, cancel := context.WithTimeout(work, r.config.PublishTimeout)
	defer cancel()
	r.Stats.InFlight.Add(int64(rows))
	defer r.Stats.InFlight.Add(-int64(rows))
	began := time.Now()
	errs := publish(ctx)
	r.Stats.publish.Observe(time.Since(began))
	return errs
}

// judge notes what became of a row and reports whether its user's next one may
// go.
func (w *rounds) judge(row *Row, err error, now time.Time) bool {
	r := w.relay
	switch {
	case err == nil:
		w.sent = append(w.sent, *row)
		r.Stats.Sent.Add(1)
		if row.StoredAt != 0 {
			r.Stats.delay.Observe(now.Sub(row.StoredAt.Time()))
		}
		r.lastSent.Store(now.UnixNano())
		r.refused.Store(0)
		r.paused.resume(row.Event.UserID)
		return true
	case errors.Is(err, engine.ErrUnroutable):
		r.Stats.Unroutable.Add(1)
		return w.refused(row, err, now)
	case errors.Is(err, engine.ErrRefused):
		r.Stats.Refused.Add(1)
		return w.refused(row, err, now)
	case engine.KindOf(err) == engine.Permanent:
		return w.fail(row, setAside, err)
	case errors.Is(err, engine.ErrUnknown):
		r.Stats.Unknown.Add(1)
	default:
		r.Stats.Away.Add(1)
	}
	if w.stop == nil || engine.KindOf(err) == engine.Configuration {
		w.stop = err
	}
	return false
}

// refused holds a row back, or sets it aside after too many attempts. An attempt
// counts where the broker has taken something lately, and since the one before:
// one that takes nothing says nothing about this row.
func (w *rounds) refused(row *Row, err error, now time.Time) bool {
	w.relay.refused.CompareAndSwap(0, now.UnixNano())
	since := now.Add(-2 * w.relay.config.HoldMax)
	if before := w.relay.paused.since(row.Event.UserID); before.After(since) {
		since = before
	}
	if w.relay.lastSent.Load() > since.UnixNano() {
		row.attempts++
	}
	if row.attempts >= w.relay.config.MaxAttempts {
		return w.fail(row, setAside, err)
	}
	w.relay.paused.pause(row.Event.UserID, now)
	return w.fail(row, postponed, err)
}

// fail notes a failure and reports whether the user's next row may go.
func (w *rounds) fail(row *Row, v verdict, err error) bool {
	w.failures = append(w.failures, failure{id: row.ID, messageID: row.messageID, verdict: v, attempts: row.attempts, err: err})
	attrs := []any{
		slog.Int64("row", row.ID), slog.Int("user_id", int(row.Event.UserID)), slog.String("message_id", row.Event.MessageID),
		slog.String("event_type", row.Event.Type.String()), slog.Int("attempt", row.attempts), slog.Any("error", err),
	}
	if v == postponed {
		w.relay.logRefusal(err, attrs)
		return false
	}
	w.relay.paused.resume(row.Event.UserID)
	w.relay.Stats.SetAside.Add(1)
	w.relay.log.Error("event set aside: it is not published", append(attrs, slog.String("hint", setAsideHint()))...)
	return true
}

func setAsideHint() string { return "see " + failedCommand.String() }

// logRefusal logs a row that the broker refused, and those refused alike once a minute.
func (r *Relay) logRefusal(err error, attrs []any) {
	why := engine.ErrRefused
	if errors.Is(err, engine.ErrUnroutable) {
		why = engine.ErrUnroutable
	}
	r.refusals.Add(why.Error(), func(n int) {
		attrs := append(attrs, slog.String("hint", "see why the broker refuses it; the row is tried again by itself, and set aside after its last attempt"))
		if n > 1 {
			attrs = append(attrs, slog.Int("count", n))
		}
		r.log.Warn("event not published: its user's later events wait", attrs...)
	})
}
