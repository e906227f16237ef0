package app

import (
	"cmp"
	"errors"
	"fmt"

	"keyfold/internal/cli"
	"keyfold/internal/settings"

	"keyfold/source/httpapi"
)

// APIFlags say where the API listens and whom it lets in.
type APIFlags struct {
	Addr       string `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of the HTTP API."`
	Access     `embed:""`
	Insecure   settings.Switch        `name:"insecure" env:"HTTP_INSECURE" help:"Explicitly allow listening beyond loopback without tokens."`
	Rate       settings.Value[bucket] `name:"http-rate" env:"HTTP_RATE" help:"Requests a second at most, all senders together."`
	SenderRate settings.Value[bucket] `name:"http-sender-rate" env:"HTTP_SENDER_RATE" help:"Requests a second at most of one token or address."`
	Concurrent settings.Value[int]    `name:"http-max-concurrent" env:"HTTP_MAX_CONCURRENT" help:"Requests at once, at most a half of them from one sender."`

	api httpapi.Config // what [settings.Read] sets
}

// Access says which tokens an API knows, and with what it encrypts.
type Access struct {
	Tokens    []string `name:"http-tokens" env:"HTTP_TOKENS" secret:"" help:"Bearer tokens, comma-separated; better in the environment or a file."`
	TokenFile string   `name:"http-token-file" env:"HTTP_TOKEN_FILE" placeholder:"FILE" help:"File of bearer tokens, one per line; read again when it changes."`
	TLSCert   string   `name:"http-tls-cert" env:"HTTP_TLS_CERT" placeholder:"FILE" help:"PEM certificate; read again when it changes."`
	TLSKey    string   `name:"http-tls-key" env:"HTTP_TLS_KEY" placeholder:"FILE" help:"PEM key."`
}

// Guard sets what is the same for each server.
func (f Access) Guard(c *httpapi.Config) {
	c.Tokens, c.TokenFile, c.TLSCert, c.TLSKey = f.Tokens, f.TokenFile, f.TLSCert, f.TLSKey
}

// Guarded reports whether a token is needed.
func (f Access) Guarded() bool { return len(f.Tokens) > 0 || f.TokenFile != "" }

// Encrypted reports whether TLS is used.
func (f Access) Encrypted() bool { return f.TLSCert != "" && f.TLSKey != "" }

// Bind binds each setting to its place in a default configuration.
func (f *APIFlags) Bind() {
	c := &f.api
	*c = httpapi.DefaultConfig()
	f.Insecure.Bind(&c.Insecure)
	f.Rate.Bind((*bucket)(&c.Total))
	f.SenderRate.Bind((*bucket)(&c.Sender))
	f.Concurrent.Bind(&c.MaxConcurrent)
}

// Config returns the API's settings; the error names every fault with the
// variable to change.
func (f APIFlags) Config() (httpapi.Config, error) {
	f.Bind()
	fault := settings.Read(&f)
	c := f.api
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, httpapi.DefaultConfig().MaxConcurrent)
	c.Addr = f.Addr
	f.Guard(&c)
	return c, errors.Join(fault, CheckPort("HTTP_ADDR", c.Addr), c.Validate())
}

// bucket is a rate that is given as so many requests a second.
type bucket httpapi.Rate

// UnmarshalText reads the rate, of which half a second's requests may come at once.
func (b *bucket) UnmarshalText(text []byte) error {
	var r cli.Rate
	if len(text) == 0 {
		return nil
	}
	if r.UnmarshalText(text) != nil {
		return errors.New("so many a second, such as 100/s")
	}
	*b = bucket{PerSecond: float64(r), Burst: max(1, int(r/2))}
	return nil
}

func (b bucket) String() string { return fmt.Sprintf("%v/s", b.PerSecond) }

// Check also reads the files with tokens and certificates.
func (f APIFlags) Check() error {
	config, err := f.Config()
	if err == nil {
		err = config.Check()
	}
	return err
}
