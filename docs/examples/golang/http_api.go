package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// API sends events to keyfold's HTTP API.
type API struct {
	URL      string
	Token    string // "" for none
	Attempts int
	Client   *http.Client
}

// NewAPI returns a client with a timeout of five seconds and four attempts.
func NewAPI(url, token string) *API {
	return &API{URL: url, Token: token, Attempts: 4, Client: &http.Client{
		Timeout: 5 * time.Second,
		// A redirected POST would lose its body.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answer is the server's to one request, or the error in its place.
type answer struct {
	status     int    // 0: no answer came
	retryAfter string // seconds, "" for none
	body       []byte
}

// passing reports whether the same request may work later.
func (a *answer) passing() bool {
	return slices.Contains([]int{0, 408, 429, 502, 503, 504}, a.status)
}

// Send stores events, all or none, and returns their message ids. Whatever goes
// wrong on the way, sending the same events again is safe.
func (a *API) Send(ctx context.Context, events ...*Event) ([]string, error) {
	var body bytes.Buffer
	lines := json.NewEncoder(&body) // one JSON object per line
	for _, event := range events {
		if err := lines.Encode(event); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		got := a.post(ctx, body.Bytes())
		if got.status == http.StatusAccepted {
			var stored struct {
				MessageIDs []string `json:"message_ids"`
			}
			err := json.Unmarshal(got.body, &stored)
			return stored.MessageIDs, err
		}
		if !got.passing() || attempt == a.Attempts {
			return nil, fmt.Errorf("keyfold answered %d: %s", got.status, got.body)
		}
		pause := time.Second << (attempt - 1)
		if seconds, err := strconv.Atoi(got.retryAfter); err == nil {
			pause = time.Duration(seconds) * time.Second
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// post makes one request.
func (a *API) post(ctx context.Context, body []byte) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return answer{body: []byte(err.Error())}
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	if a.Token != "" {
		request.Header.Set("Authorization", "Bearer "+a.Token)
	}
	response, err := a.Client.Do(request)
	if err != nil {
		return answer{body: []byte(err.Error())}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body) // that of a 400 says what is wrong
	if err != nil {
		return answer{body: []byte(err.Error())}
	}
	return answer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), body: text}
}
