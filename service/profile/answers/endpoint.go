package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sourcegraph/conc"

	"keyfold/service/profile/api"
	"keyfold/service/profile/recommend"
	"keyfold/source/catalog/index"
	"keyfold/source/httpapi"
)

// endpoint is the API on a loopback address, and what it answered to one kind of request.
type endpoint struct {
	ask     string
	query   string // of its requests
	root    string
	server  *httpapi.Server
	serving conc.WaitGroup
	client  http.Client

	shown   [][]int32 // by the number of the question
	byBasis map[string]int
	took    []time.Duration
}

// newEndpoint serves the recommendations of what the store, the history and the catalogue hold.
func newEndpoint(in *Input, h *history, catalogue *index.Index, o Options, ask string, questions int) (*endpoint, error) {
	config := recommend.DefaultConfig()
	config.PopularTTL = 0 // an hour of the log takes less than a second
	r, err := recommend.New(config, recommend.Ports{Profiles: in.Store, Products: recommend.InMemory{Index: catalogue}, History: h, Phrases: in.Phrases, Laws: in.Laws.Config})
	if err != nil {
		return nil, err
	}
	reading := api.New(api.Ports{Recommender: r, Ready: func(context.Context) error { return nil }})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	settings := httpapi.DefaultConfig()
	settings.Addr, settings.Total, settings.Sender = listener.Addr().String(), httpapi.Rate{}, httpapi.Rate{}
	server, err := httpapi.NewServer(settings, httpapi.NewHandler(reading, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	values, err := url.ParseQuery(ask)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	values.Set("k", strconv.Itoa(o.K))
	values.Set("exclude", string(recommend.ExcludeSeen))
	e := &endpoint{
		ask: ask, query: values.Encode(), root: "http://" + settings.Addr, server: server, client: http.Client{Transport: &http.Transport{}},
		shown: make([][]int32, questions), byBasis: map[string]int{},
	}
	e.serving.Go(func() { server.Serve(listener) }) //nolint:errcheck // requests fail where it ends early
	return e, nil
}

func (e *endpoint) close() error {
	e.client.CloseIdleConnections()
	err := e.server.Close()
	e.serving.Wait()
	return err
}

// answer is what a shop reads of an answer.
type answer struct {
	Basis    string `json:"basis"`
	Products []struct {
		ID int32 `json:"product_id"`
	} `json:"recommendations"`
}

// put asks a question.
func (e *endpoint) put(ctx context.Context, q question) error {
	began := time.Now()
	body, err := e.get(ctx, fmt.Sprintf("%s/v1/users/%d/recommendations?%s", e.root, q.User, e.query))
	if err != nil {
		return err
	}
	e.took = append(e.took, time.Since(began))
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("%s: %w", e.query, err)
	}
	e.byBasis[a.Basis]++
	shown := make([]int32, len(a.Products))
	for i, p := range a.Products {
		shown[i] = p.ID
	}
	e.shown[q.number] = shown
	return nil
}

func (e *endpoint) get(ctx context.Context, target string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered %d: %s", e.query, response.StatusCode, body)
	}
	return body, err
}
