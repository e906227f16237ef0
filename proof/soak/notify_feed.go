package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/bench/workload"
	"keyfold/service/notify/broker"

	"keyfold/engine/notify"
	"keyfold/source/rabbit"
)

// notifyFeed posts events at a rate, half of them to the API and half to the broker, as
// services do: what was not confirmed is posted again, however often that is.
type notifyFeed struct {
	publisher *rabbit.Publisher
	posts     []string // addresses of the APIs
	traffic   *workload.Traffic
	laws      *workload.Laws
	rate      int // per second
	random    *rand.Rand

	recent []*notify.Notification // some that were posted, to be repeated

	inMerges map[string]bool // users who are, or were asked to be, one with another one

	posted, published, repeated, again    atomic.Int64
	replacing, cancelled, changed, merged atomic.Int64
	failure                               atomic.Pointer[error]
	given                                 atomic.Bool // up: the run has failed
}

// recentEvents is how many events may be repeated: those of some minutes.
const recentEvents = 4000

// run posts until ctx ends, and returns when every event is accepted. A post that waits
// for a server does not hold up the others.
func (f *notifyFeed) run(ctx context.Context) error {
	var posting sync.WaitGroup
	defer posting.Wait()
	slots := make(chan struct{}, 64)
	began, made := time.Now(), 0
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			posting.Wait()
			return f.err()
		}
		for due := int(time.Since(began).Seconds() * float64(f.rate)); made < due; {
			events, err := f.take(1 + f.random.IntN(4))
			if err != nil {
				return err
			}
			made += len(events)
			byAPI := f.random.IntN(2) == 0 && len(f.posts) > 0
			slots <- struct{}{}
			posting.Go(func() {
				defer func() { <-slots }()
				if byAPI {
					f.post(events)
				} else {
					f.publish(events)
				}
			})
		}
		if beside := f.beside(); beside != nil {
			slots <- struct{}{}
			posting.Go(func() {
				defer func() { <-slots }()
				f.until(beside)
			})
		}
		if err := f.err(); err != nil {
			return err
		}
	}
}

// take makes events. A tenth of them were posted before, a moment or minutes ago.
func (f *notifyFeed) take(n int) ([]*notify.Notification, error) {
	events := make([]*notify.Notification, n)
	for i := range events {
		if len(f.recent) > 0 && f.random.Float64() < duplicates {
			events[i] = f.recent[len(f.recent)-1-f.random.IntN(min(len(f.recent), 1<<f.random.IntN(13)))]
			f.repeated.Add(1)
			continue
		}
		e, err := f.traffic.Next(time.Now())
		if err != nil {
			return nil, err
		}
		if e, err = f.replaces(e); err != nil {
			return nil, err
		}
		f.laws.Accepted(e)
		events[i] = e
		if f.recent = append(f.recent, e); len(f.recent) > 2*recentEvents {
			f.recent = append(f.recent[:0], f.recent[recentEvents:]...)
		}
	}
	return events, nil
}

// tries bounds the posts of one event, a tenth of a second apart.
const tries = 3000

func (f *notifyFeed) publish(events []*notify.Notification) {
	messages := make([]rabbit.Message, len(events))
	for i, e := range events {
		messages[i] = broker.EventMessage(e)
	}
	f.until(func(int) error {
		trying, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return errors.Join(f.publisher.Publish(trying, messages)...)
	})
	f.published.Add(int64(len(events)))
}

// post sends events in one request, to another API each time.
func (f *notifyFeed) post(events []*notify.Notification) {
	var body bytes.Buffer
	separator := byte('[')
	for _, e := range events {
		body.WriteByte(separator)
		body.Write(e.Body)
		separator = ','
	}
	body.WriteByte(']')
	n := int(f.posted.Add(int64(len(events))))
	f.until(func(try int) error {
		return postTo(f.posts[(n+try)%len(f.posts)], "/v1/notifications", "", body.Bytes())
	})
}

var errRefused = errors.New("the API refuses the post")

// postTo posts JSON, with a token where there is one.
func postTo(address, path, token string, body []byte) error {
	return sendTo(http.MethodPost, address, path, token, body)
}

func sendTo(method, address, path, token string, body []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := posting.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusAccepted || response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusConflict || response.StatusCode == http.StatusPreconditionFailed, response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500:
		return fmt.Errorf("%s: %s", response.Status, text)
	default:
		return fmt.Errorf("%w: %s: %s", errRefused, response.Status, text)
	}
}

// posting keeps no connection: the next request may meet another process.
var posting = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// until tries until it succeeds.
func (f *notifyFeed) until(try func(int) error) {
	var err error
	for i := range tries {
		if err = try(i); err == nil {
			return
		}
		if errors.Is(err, errRefused) || f.given.Load() {
			break
		}
		f.again.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
	err = fmt.Errorf("a post was not accepted: %w", err)
	f.failure.CompareAndSwap(nil, &err)
}

func (f *notifyFeed) err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}
