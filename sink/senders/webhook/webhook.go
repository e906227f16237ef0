// Package webhook hands dispatches over by HTTP: a POST of JSON each, see package
// message, under an Idempotency-Key by which the receiver drops repeats.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/notify"
	"keyfold/sink/senders/message"
)

// Config says where dispatches go, and how often they are tried.
type Config struct {
	URL         string        // http or https
	Timeout     time.Duration // of one request
	Attempts    int           // for one call of Send; a sweep tries again later
	Pause       time.Duration // before the second attempt; doubled each time
	MaxPause    time.Duration
	Concurrency int // requests at once
	// Rest is how long nothing is posted after a receiver did not answer: those who
	// wait for a hand-over are not held up by each dispatch in turn.
	Rest time.Duration
}

// DefaultConfig returns the settings for a receiver that answers within seconds.
func DefaultConfig(address string) Config {
	return Config{URL: address, Timeout: 10 * time.Second, Attempts: 3, Pause: 200 * time.Millisecond, MaxPause: 5 * time.Second, Concurrency: 8, Rest: 10 * time.Second}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		faults.If(true, "the webhook's address must be of the form https://host/path, found %q", redacted(c.URL))
	} else {
		faults.If(u.Fragment != "", "the webhook's address has a fragment, #%s: leave it out", u.Fragment)
	}
	faults.If(c.Timeout <= 0, "a webhook timeout of %v: it must be above 0", c.Timeout)
	faults.If(c.Attempts < 1, "%d webhook attempts: it must be at least 1", c.Attempts)
	faults.If(c.Pause <= 0 || c.MaxPause < c.Pause, "webhook pause %v up to %v: both must be above 0, in this order", c.Pause, c.MaxPause)
	faults.If(c.Rest < 0, "a webhook rest of %v: it must be 0 or above", c.Rest)
	faults.If(c.Concurrency < 1, "%d webhook requests at once: it must be at least 1", c.Concurrency)
	return faults.Err()
}

// redacted returns an address without what may be a secret.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// Webhook is a [notify.Dispatcher]. It is safe for concurrent use.
type Webhook struct {
	// Links are those of the messages; nil: they have none. It is set before the first Send.
	Links message.Linker

	config Config
	client *http.Client
	slots  chan struct{}
	awake  atomic.Int64 // nothing is posted before, in Unix nanoseconds
}

// New returns a webhook.
func New(config Config) (*Webhook, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = config.Concurrency
	return &Webhook{
		config: config,
		client: &http.Client{Transport: transport, Timeout: config.Timeout, CheckRedirect: sameHost},
		slots:  make(chan struct{}, config.Concurrency),
	}, nil
}

var errRedirect = errors.New("a redirect that is not followed")

// sameHost follows redirects that keep the host, the encryption and the POST: users'
// texts go to the host that was named, and to no other.
func sameHost(r *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case r.URL.Host != first.URL.Host || first.URL.Scheme == "https" && r.URL.Scheme != "https":
		return fmt.Errorf("%w: it leads to another host, %s: name the final address", errRedirect, r.URL.Host)
	case r.Method != http.MethodPost:
		return fmt.Errorf("%w: it turns the POST into a %s: answer 307 or 308, or name the final address", errRedirect, r.Method)
	case len(via) > 5:
		return fmt.Errorf("%w: there were %d before it", errRedirect, len(via))
	}
	return nil
}

// Send posts the dispatches and returns when each is confirmed or given up.
func (w *Webhook) Send(ctx context.Context, dispatches []notify.Dispatch) []error {
	errs := make([]error, len(dispatches))
	var posts sync.WaitGroup
	for i := range dispatches {
		posts.Go(func() {
			select {
			case w.slots <- struct{}{}:
				defer func() { <-w.slots }()
				errs[i] = w.deliver(ctx, &dispatches[i])
			case <-ctx.Done():
				errs[i] = context.Cause(ctx)
			}
		})
	}
	posts.Wait()
	return errs
}

// Close closes idle connections.
func (w *Webhook) Close() error {
	w.client.CloseIdleConnections()
	return nil
}

// deliver posts one dispatch until it is taken, refused, or tried often enough.
func (w *Webhook) deliver(ctx context.Context, d *notify.Dispatch) error {
	if time.Now().UnixNano() < w.awake.Load() {
		return fmt.Errorf("%s did not answer a moment ago: %w", redacted(w.config.URL), engine.ErrAway)
	}
	body, err := message.Append(nil, d, w.Links)
	if err != nil {
		return err
	}
	waits := backoff.Backoff{Min: w.config.Pause, Max: w.config.MaxPause}
	for attempt := 1; ; attempt++ {
		wait, err := w.post(ctx, d.ID.String(), body)
		if err == nil || engine.KindOf(err) == engine.Permanent {
			return err
		}
		if attempt == w.config.Attempts {
			w.awake.Store(time.Now().Add(w.config.Rest).UnixNano())
			return err
		}
		if !backoff.Sleep(ctx, max(waits.Next(), min(wait, w.config.MaxPause))) {
			return err
		}
	}
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// post makes one request. wait is what the receiver asks for.
func (w *Webhook) post(ctx context.Context, key string, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.config.URL, bytes.NewReader(body))
	if err != nil {
		return 0, engine.PermanentError("webhook_request", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("User-Agent", "keyfold")
	answer, err := w.client.Do(r)
	if err != nil {
		if errors.Is(err, errRedirect) {
			return 0, engine.PermanentError("webhook_redirect", fmt.Errorf("%s answers with %w", redacted(w.config.URL), unwrapURL(err)))
		}
		return 0, fmt.Errorf("%s: %w", redacted(w.config.URL), unwrapURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer) // so that the connection can be used again
	switch status := answer.StatusCode; {
	case status >= 200 && status < 300:
		return 0, nil
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(max(0, seconds)) * time.Second, fmt.Errorf("%s answers %s", redacted(w.config.URL), answer.Status)
	default:
		return 0, engine.PermanentError("webhook_refused", fmt.Errorf("%s answers %s: check that it takes POST with this JSON", redacted(w.config.URL), answer.Status))
	}
}

// unwrapURL takes the address, which may hold a secret, out of an error.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
