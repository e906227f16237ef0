package openai

import (
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
	if errors.Is(err, context.DeadlineExceeded) {
		return &engine.Error{Kind: engine.Transient, Reason: "embedding_timeout", Err: fmt.Errorf(
			"embedding API at %s gave no whole answer within %v", c.config.BaseURL, c.config.Timeout)}
	}
	return &engine.Error{Kind: engine.Transient, Reason: "embedding_unreachable", Err: fmt.Errorf(
		"embedding API at %s does not answer: is it running, is OPENAI_BASE_URL right? (%s)", c.config.BaseURL, c.redact(err.Error()))}
}

// judge gives a refusal its kind.
func (c *Client) judge(status int, told refusal, said error) error {
	fault := func(reason, cure string) error {
		return engine.ConfigurationError(reason, fmt.Errorf("%w; %s", said, cure))
	}
	switch status {
	case http.StatusUnauthorized:
		return fault("embedding_api_key", "set OPENAI_API_KEY to a key this service knows")
	case http.StatusForbidden:
		return fault("embedding_api_forbidden", fmt.Sprintf(
			"use a key in OPENAI_API_KEY that may call the model %q, from a place the service serves", c.config.Model))
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return fault("embedding_api_not_found", fmt.Sprintf(
			"check OPENAI_BASE_URL (it mostly ends in /v1) and that the service has the model %q", c.config.Model))
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if told.aboutSettings() {
			return fault("embedding_api_setting", fmt.Sprintf(
				"check EMBEDDING_MODEL %q and EMBEDDING_DIMENSIONS %d against what the service knows",
				c.config.Model, c.config.Dimensions))
		}
		return engine.PermanentError("embedding_refused", said)
	case http.StatusPaymentRequired:
		return c.spent(said)
	case http.StatusTooManyRequests:
		if told.spent() {
			return c.spent(said)
		}
		return &engine.Error{Kind: engine.Transient, Reason: "embedding_rate_limit", Err: said}
	default:
		return &engine.Error{Kind: engine.Transient, Reason: "embedding_server_error", Err: said}
	}
}

// spent is the error of an account without money: nothing is accepted, nothing
// is misspelt either.
func (c *Client) spent(said error) error {
	return &engine.Error{Kind: engine.Transient, Reason: "embedding_quota", Err: fmt.Errorf(
		"%w (%w: the account's quota is spent; raise it or set another OPENAI_API_KEY)", said, engine.ErrAway)}
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
