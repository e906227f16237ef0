package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// newTransport returns a transport with connections of its own: with the proxies
// of the environment and HTTP/2, as Go's default one.
func newTransport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	return transport
}

// question is the body of a request.
type question struct {
	Input          []string `json:"input"`
	Model          string   `json:"model"`
	Dimensions     int      `json:"dimensions,omitempty"`
	EncodingFormat string   `json:"encoding_format"`
}

// reply is what a server answered: its body as far as it came.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends one request and reads the reply, nil where there is none. Where a body
// breaks off, the reply comes with an error.
func (c *Client) post(ctx context.Context, inputs []string) (*reply, error) {
	q := question{Input: inputs, Model: c.config.Model, EncodingFormat: c.config.Encoding}
	if !c.config.OmitDimensions {
		q.Dimensions = c.config.Dimensions
	}
	encoded, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "keyfold")
	if c.config.Key != "" {
		request.Header.Set("Authorization", "Bearer "+string(c.config.Key))
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	// A body that is read to its end leaves the connection to the next request.
	body, err := io.ReadAll(io.LimitReader(response.Body, c.maxAnswer()))
	return &reply{response.StatusCode, response.Header, body}, err
}

// maxAnswer bounds an answer's bytes, decompressed: twice what decimal floats take
// up. No server makes us read for ever.
func (c *Client) maxAnswer() int64 {
	return int64(c.config.MaxInputs)*int64(c.config.Dimensions)*48 + 1<<20
}

// mayFollow refuses redirects to another server: it would be sent the texts, and
// maybe the key.
func (c *Client) mayFollow(next *http.Request, via []*http.Request) error {
	const most = 10 // as many as net/http follows
	switch {
	case origin(next.URL) != origin(c.endpoint):
		return fmt.Errorf("it redirects to another server: set %s to the address of that one, if it is trusted", BaseURLSetting)
	case len(via) >= most:
		return fmt.Errorf("it redirects in a circle: check %s", BaseURLSetting)
	}
	return nil
}

// origin returns the scheme, host and port of an address in one spelling.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
