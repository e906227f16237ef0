package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/source/vector"
)

// failure judges a request that brought no vectors: by its status where there was
// a reply, even if its body broke off.
func (c *Client) failure(ctx context.Context, got *reply, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if got == nil || got.status < http.StatusBadRequest {
		return c.silence(err)
	}
	told := readRefusal(got.body)
	if got.status == http.StatusUnauthorized {
		told.message = "the key is refused" // the service's own words quote a part of it
	}
	said := fmt.Errorf("embedding API at %s answered %d: %s",
		c.config.BaseURL, got.status, c.redact(told.message))
	err = c.judge(got.status, told, said)
	if pause := retryAfter(got.header, time.Now()); pause > 0 && engine.KindOf(err) == engine.Transient {
		return &vector.PauseError{Pause: pause, Err: err}
	}
	return err
}

// silence is the error of a request without an answer.
func (c *Client) silence(err error) error {
	id, said := causes.Find(err), c.redact(err.Error())
	if errors.Is(err, http.ErrSchemeMismatch) {
		id = causes.NoTLS
	}
	if id == causes.NoAnswer {
		said = fmt.Sprintf("no whole answer within %v", c.config.Timeout)
	}
	return causes.Explain(causes.EmbeddingAPI, cmp.Or(id, causes.Other), fmt.Errorf("embedding API at %s: %s", c.config.BaseURL, said))
}

// causesOf has the causes of refusals by their status.
var causesOf = map[int]causes.ID{
	http.StatusUnauthorized: causes.Credentials,
	http.StatusForbidden:    causes.Rights,
	http.StatusNotFound:     causes.Missing, http.StatusMethodNotAllowed: causes.Missing, http.StatusGone: causes.Missing,
	http.StatusPaymentRequired: causes.Quota,
	http.StatusTooManyRequests: causes.Rate,
}

// judge gives a refusal its cause and kind.
func (c *Client) judge(status int, told refusal, said error) error {
	id := cmp.Or(causesOf[status], causes.Failing)
	switch {
	case told.tls():
		id = causes.NeedsTLS
	case slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}, status):
		if !told.aboutSettings() {
			return engine.PermanentError("embedding_refused", said)
		}
		id, said = causes.Settings, fmt.Errorf("%w; %s is %q, %s %d", said, modelSetting, c.config.Model, dimensionsSetting, c.config.Dimensions)
	case status == http.StatusTooManyRequests && told.spent():
		id = causes.Quota
	}
	if id == causes.Quota { // nothing is accepted, and nothing is misspelt
		said = fmt.Errorf("%w: %w", engine.ErrAway, said)
	}
	return causes.Explain(causes.EmbeddingAPI, id, said)
}

// spelled matches a key in a text that an API may have wrapped, quoted or put
// into another case.
func spelled(key Key) *regexp.Regexp {
	var parts []string
	for _, c := range string(key) {
		parts = append(parts, regexp.QuoteMeta(string(c)))
	}
	return regexp.MustCompile(`(?i)` + strings.Join(parts, `[^0-9A-Za-z]*`))
}

// redact bounds a text from outside and takes the key out of it.
func (c *Client) redact(text string) string {
	const most = 300
	if c.config.Key != "" {
		text = spelled(c.config.Key).ReplaceAllString(text, redacted)
	}
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// refusal is what an error's body says, as far as it says anything.
type refusal struct {
	message, code, kind, param string
}

// aboutSettings reports whether a refused request is refused for what the
// configuration put into it, not for its texts.
func (r refusal) aboutSettings() bool {
	return slices.Contains([]string{"model", "dimensions", "encoding_format"}, r.param) ||
		slices.Contains([]string{"model_not_found", "invalid_model", "unsupported_parameter", "unknown_parameter"}, r.code)
}

// tls reports whether a server that wants TLS refused a request without. Go's own and nginx
// say so in the body.
func (r refusal) tls() bool {
	return strings.Contains(r.message, "HTTP request to an HTTPS server") || strings.Contains(r.message, "plain HTTP request was sent to HTTPS port")
}

func (r refusal) spent() bool {
	ends := []string{"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
	return slices.Contains(ends, r.code) || slices.Contains(ends, r.kind)
}

// readRefusal reads an error's body. Compatible servers have shapes of their
// own for it, and what stands before them has HTML.
func readRefusal(text []byte) refusal {
	const most = 64 << 10
	text = text[:min(len(text), most)]
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(text, &outer) != nil {
		return refusal{message: string(text)}
	}
	var inner struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Param   string `json:"param"`
	}
	if json.Unmarshal(outer.Error, &inner) == nil && inner.Message != "" {
		code, _ := inner.Code.(string)
		return refusal{message: inner.Message, code: code, kind: inner.Type, param: inner.Param}
	}
	for _, raw := range []json.RawMessage{outer.Error, outer.Message, outer.Detail} {
		var message string
		if json.Unmarshal(raw, &message) == nil && message != "" {
			return refusal{message: message}
		}
	}
	return refusal{message: string(text)}
}

// retryAfter reads how long the server wants to be left alone: milliseconds,
// seconds or a date; 0 where it does not say.
func retryAfter(header http.Header, now time.Time) time.Duration {
	for _, h := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		text := strings.TrimSpace(header.Get(h.name))
		if text == "" {
			continue
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			const most = 24 * time.Hour
			if !(n > 0) {
				return 0
			}
			return time.Duration(min(n*float64(h.unit), float64(most)))
		}
		if at, err := http.ParseTime(text); err == nil {
			return max(0, at.Sub(now))
		}
	}
	return 0
}
