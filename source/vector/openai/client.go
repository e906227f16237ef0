package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/source/vector"
)

// Client asks an embeddings API. It is safe for concurrent use.
type Client struct {
	config   Config
	endpoint *url.URL
	http     *http.Client
	stats    Stats
}

var _ vector.Embedder = (*Client)(nil)

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Requests      atomic.Int64
	Phrases       atomic.Int64 // texts sent
	Tokens        atomic.Int64 // that the API says it counted
	Transient     atomic.Int64 // requests that failed, by kind
	Permanent     atomic.Int64
	Configuration atomic.Int64
	Time          *metric.Histogram // of requests
}

// Register adds the client's series to set.
func (c *Client) Register(set *metric.Set) {
	s := &c.stats
	set.Counter("keyfold_embedding_requests_total", "Requests to the embedding API.", s.Requests.Load)
	set.Counter("keyfold_embedding_inputs_total", "Texts sent to the embedding API.", s.Phrases.Load)
	set.Counter("keyfold_embedding_tokens_total", "Tokens that the embedding API says it counted.", s.Tokens.Load)
	const failures = "Requests to the embedding API that failed, by kind."
	set.Counter(`keyfold_embedding_failures_total{kind="transient"}`, failures, s.Transient.Load)
	set.Counter(`keyfold_embedding_failures_total{kind="permanent"}`, failures, s.Permanent.Load)
	set.Counter(`keyfold_embedding_failures_total{kind="configuration"}`, failures, s.Configuration.Load)
	set.Histogram("keyfold_embedding_request_seconds", "Requests to the embedding API, failed ones too.", s.Time)
}

// New returns a client. Nothing is asked yet.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, engine.ConfigurationError("embedding_api", err)
	}
	base, err := url.Parse(config.BaseURL)
	if err != nil {
		return nil, engine.ConfigurationError("embedding_api", err)
	}
	c := &Client{config: config, endpoint: base.JoinPath("embeddings")}
	c.stats.Time = metric.NewCalls()
	c.http = &http.Client{Transport: newTransport(), CheckRedirect: c.mayFollow}
	return c, nil
}

// Close lets idle connections go. The client can be used afterwards.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Model names what makes the vectors.
func (c *Client) Model() string { return c.config.Model }

// Dimensions is the number of components of every vector.
func (c *Client) Dimensions() int { return c.config.Dimensions }

// Stats returns the client's counters.
func (c *Client) Stats() *Stats { return &c.stats }

// Embed asks for vectors, in as many requests, one after the other, as the
// limits make of the phrases. Texts that are too long are cut.
func (c *Client) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	vectors := make([][]float32, 0, len(phrases))
	for inputs := range c.requests(phrases) {
		some, err := c.ask(ctx, inputs)
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, some...)
	}
	return vectors, nil
}

// ask makes one request. One that is refused with a single text has found its
// culprit, unless the server refuses every text: a model that does not know a
// parameter does, and no event is at fault for that. A harmless text tells.
func (c *Client) ask(ctx context.Context, inputs []string) ([][]float32, error) {
	const harmless = "product"
	vectors, err := c.request(ctx, inputs)
	if len(inputs) != 1 || engine.KindOf(err) != engine.Permanent {
		return vectors, err
	}
	if inputs[0] != harmless {
		switch _, other := c.request(ctx, []string{harmless}); {
		case other == nil:
			return nil, err
		case engine.KindOf(other) != engine.Permanent:
			return nil, other
		}
	}
	c.stats.Configuration.Add(1)
	return nil, engine.ConfigurationError("embedding_api_refuses_all", fmt.Errorf(
		"%w; it refuses every text: check %s %q and %s %d against what the service knows",
		err, modelSetting, c.config.Model, dimensionsSetting, c.config.Dimensions))
}

// request makes one HTTP request and judges the answer.
func (c *Client) request(ctx context.Context, inputs []string) ([][]float32, error) {
	within, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	c.stats.Requests.Add(1)
	c.stats.Phrases.Add(int64(len(inputs)))

	began := time.Now()
	got, err := c.post(within, inputs)
	c.stats.Time.Observe(time.Since(began))
	if err != nil || got.status >= http.StatusBadRequest {
		return nil, c.count(ctx, c.failure(ctx, got, err))
	}
	vectors, tokens, err := decode(got.body, len(inputs), c.config.Dimensions)
	c.stats.Tokens.Add(tokens)
	if err != nil {
		return nil, c.count(ctx, &engine.Error{Kind: engine.Transient, Reason: "bad_answer", Err: fmt.Errorf(
			"embedding API at %s gave an answer that does not fit: %w", c.config.BaseURL, err)})
	}
	return vectors, nil
}

// count counts a failure by its kind, but not one whose caller left.
func (c *Client) count(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	switch engine.KindOf(err) {
	case engine.Permanent:
		c.stats.Permanent.Add(1)
	case engine.Configuration:
		c.stats.Configuration.Add(1)
	default:
		c.stats.Transient.Add(1)
	}
	return err
}
