package openai

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// DefaultBaseURL is OpenAI's own service, the only one known to need a key.
const DefaultBaseURL = "https://api.openai.com/v1"

// DefaultModel is OpenAI's small model: 1536 components, or fewer if asked for.
const DefaultModel = "text-embedding-3-small"

// Encodings of the vectors in an answer. Either is understood whichever was
// asked for.
const (
	// Base64 is a quarter of the bytes and a fraction of the work. It is what
	// OpenAI's own Python client asks for when it is told nothing, so that
	// compatible servers know it or pass over it.
	Base64 = "base64"
	// Float is for servers that refuse the other.
	Float = "float"
)

const redacted = "[redacted]"

// Key is an API key. It shows nothing of itself however it is printed, logged
// or encoded.
type Key string

// Format writes a placeholder, whatever the verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// String returns a placeholder, or "" for no key.
func (k Key) String() string {
	if k == "" {
		return ""
	}
	return redacted
}

// LogValue returns a placeholder.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns a placeholder.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Config holds the settings of a [Client].
type Config struct {
	// BaseURL is what stands before /embeddings: http or https.
	BaseURL string
	// Key is sent as a bearer token. Servers of one's own often need none.
	Key   Key
	Model string
	// Dimensions is the number of components of every vector.
	Dimensions int
	// OmitDimensions leaves the dimensions parameter out of requests, for
	// models that refuse it since they know one length only. Answers are held
	// to Dimensions all the same.
	OmitDimensions bool
	Encoding       string // Base64 or Float
	// Timeout is how long a request may take, answer included.
	Timeout time.Duration
	// MaxInputs is how many texts a request has at most. The API takes 2048;
	// some servers of one's own take 32.
	MaxInputs int
	// MaxInputBytes is where a text is cut, at white space if there is some.
	// Tokens of these models have one byte at least, so that the default is
	// never above the 8192 tokens the API takes: a search phrase is not cut,
	// nor is a product's name and category.
	MaxInputBytes int
	// MaxRequestBytes bounds the texts of one request together: the API takes
	// 300,000 tokens.
	MaxRequestBytes int
}

// DefaultConfig is OpenAI's service with the model and the number of components
// of [profile.DefaultConfig]. The key is missing.
func DefaultConfig() Config {
	return Config{
		BaseURL:         DefaultBaseURL,
		Model:           DefaultModel,
		Dimensions:      profile.DefaultConfig().Dimensions,
		Encoding:        Base64,
		Timeout:         10 * time.Second,
		MaxInputs:       256,
		MaxInputBytes:   8191,
		MaxRequestBytes: 256 << 10,
	}
}

// Validate reports every fault at once. None of them quotes the key.
func (c Config) Validate() error {
	var faults engine.Faults
	faults = append(faults, checkBase(c.BaseURL))
	faults.If(c.Key == "" && strings.TrimRight(c.BaseURL, "/") == DefaultBaseURL, "Key is not set: set it, or set BaseURL to a server of your own")
	faults.If(strings.ContainsFunc(string(c.Key), func(r rune) bool { return r <= ' ' || r >= 0x7f }),
		"Key holds white space or characters no key has: copy it again")
	faults.If(c.Model == "", "Model is empty: set it to a model of the service, such as %s", DefaultModel)
	faults.If(c.Dimensions < 1 || c.Dimensions > profile.MaxDimensions, "Dimensions is %d: it must be between 1 and %d", c.Dimensions, profile.MaxDimensions)
	faults.If(c.Encoding != Base64 && c.Encoding != Float, "encoding of embeddings is %q: it must be %q or %q", c.Encoding, Base64, Float)
	faults.If(c.MaxInputBytes < 4 || c.MaxRequestBytes < c.MaxInputBytes, "texts of %d bytes, requests of %d bytes: at least 4, and no request smaller than a text",
		c.MaxInputBytes, c.MaxRequestBytes)
	return errors.Join(faults.Err(), c.CheckRequests())
}

// CheckRequests reports every fault of what bounds requests: also of a service that
// is not used.
func (c Config) CheckRequests() error {
	const most = 2048 // texts that services take in one request
	var faults engine.Faults
	faults.If(c.Timeout <= 0, "Timeout is %v: it must be above 0 (seconds)", c.Timeout)
	faults.If(c.MaxInputs < 1 || c.MaxInputs > most, "MaxInputs is %d: it must be between 1 and %d", c.MaxInputs, most)
	return faults.Err()
}

// checkBase quotes nothing of the address: it may hold a password.
func checkBase(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("BaseURL is no http or https address: it must look like %s", DefaultBaseURL)
	case u.User != nil:
		return errors.New("BaseURL holds a user name: put the key into Key")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("BaseURL holds a query: it must look like %s", DefaultBaseURL)
	}
	return nil
}
