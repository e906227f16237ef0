package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/service/notify/broker"
	"keyfold/sink/senders/message"
	"keyfold/source/rabbit"
)

// notifyReports are what senders say of their deliveries, and of what users did, half of them to
// the API and half to the broker. Some deliveries fail first; reports come in any order and twice.
type notifyReports struct {
	publisher *rabbit.Publisher
	posts     []string // addresses of the APIs
	todo      chan report
	work      sync.WaitGroup
	until     func(func(int) error)
	made      atomic.Int64
	confirmed atomic.Int64

	mu       sync.Mutex
	random   *rand.Rand
	reported map[uuid.UUID]notify.Status // the last that may stay, by dispatch
}

// report is one in the form in which senders send it.
type report struct {
	ID      uuid.UUID `json:"event_id"` // or the digest's
	Status  string    `json:"status"`
	Channel string    `json:"channel"`
	At      time.Time `json:"at"`
	Error   string    `json:"error,omitempty"`

	byAPI bool
}

func newNotifyReports(p *rabbit.Publisher, f *notifyFeed, seed uint64) *notifyReports {
	r := &notifyReports{
		publisher: p, posts: f.posts, todo: make(chan report, 1<<16), until: f.until,
		random: rand.New(rand.NewPCG(seed, 0x7265706f7274)), reported: map[uuid.UUID]notify.Status{},
	}
	for range 4 {
		r.work.Go(func() {
			for one := range r.todo {
				r.send(one)
			}
		})
	}
	return r
}

// of makes the reports of a dispatch, of a third of them none.
func (r *notifyReports) of(m message.Message, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported[m.DispatchID] != 0 || r.random.IntN(3) == 0 {
		return
	}
	at = at.UTC().Truncate(time.Millisecond)
	failed := report{m.DispatchID, notify.DeliveryFailed.String(), m.Channels[0], at, "mailbox full", r.random.IntN(2) == 0}
	good := report{ID: m.DispatchID, Status: notify.Delivered.String(), Channel: m.Channels[0], At: at, byAPI: r.random.IntN(2) == 0}
	read := good
	read.Status = []string{"OPENED", "CLICKED", "DISMISSED"}[r.random.IntN(3)]
	all := [][]report{{good}, {good, good}, {failed, good}, {good, failed}, {failed}, {good, read}, {read}, {read, good}}[r.random.IntN(8)]
	r.reported[m.DispatchID] = notify.Delivered
	if len(all) == 1 && all[0] == failed {
		r.reported[m.DispatchID] = notify.DeliveryFailed
	}
	r.made.Add(int64(len(all)))
	for _, one := range all {
		r.todo <- one
	}
}

// send sends a report until it is taken.
func (r *notifyReports) send(one report) {
	body, _ := json.Marshal(one) // strings cannot fail
	r.until(func(try int) error {
		if one.byAPI && len(r.posts) > 0 {
			return postTo(r.posts[try%len(r.posts)], "/v1/deliveries", "", body)
		}
		trying, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return errors.Join(r.publisher.Publish(trying, []rabbit.Message{{
			Exchange: broker.DeliveryExchange, RoutingKey: "delivery." + strings.ToLower(one.Status), ID: one.ID.String(), Body: body,
		}})...)
	})
	r.confirmed.Add(1)
}

// close waits until every report is taken. No dispatch comes any more.
func (r *notifyReports) close() {
	close(r.todo)
	r.work.Wait()
}

// compare returns how the deliveries that are stored differ from the reports.
func (r *notifyReports) compare(stored map[uuid.UUID]notify.Status) error {
	var lines []string
	for id, want := range r.reported {
		if got := stored[id]; got != want {
			lines = append(lines, fmt.Sprintf("dispatch %s: reported %v, stored %v", id, want, got))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("deliveries differ from their reports: %d\n  %s", len(lines), strings.Join(first(lines, 10), "\n  "))
}
