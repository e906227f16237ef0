package httpapi

import (
	"context"
	"crypto/tls"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"keyfold/engine"
)

const maxHeader = 16 << 10

// Server is an application on a port, with the guard in front: host names, tokens,
// rates, then the [Handler], whose requests at once it bounds.
type Server struct {
	http      http.Server
	handler   *Handler
	guard     *guard
	encrypted bool
}

// NewServer returns a server for handler. It reads the files that config names.
// Every error is of kind configuration and names its cure.
//
// Without tokens and on a loopback address, requests made under a name that is
// not the loopback's own are refused: a browser that was led here by another
// site's DNS names that site.
func NewServer(config Config, handler *Handler) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	g, err := newGuard(config, handler.about.Open, handler.log)
	if err != nil {
		return nil, engine.ConfigurationError("http_tokens", err)
	}
	handler.slots = newShares(int64(config.MaxConcurrent))
	s := &Server{handler: handler, guard: g, encrypted: config.encrypts()}
	s.http = http.Server{
		Addr:              config.Addr,
		Handler:           s,
		ReadHeaderTimeout: config.Timeouts.Header,
		ReadTimeout:       config.Timeouts.Body,
		WriteTimeout:      config.Timeouts.Answer,
		IdleTimeout:       config.Timeouts.Idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          stdlog.New(serverLines{handler.log}, "", 0),
	}
	if s.encrypted {
		if s.http.TLSConfig, err = certificates(config, handler.log); err != nil {
			return nil, engine.ConfigurationError("http_tls", err)
		}
	}
	s.warn(config)
	return s, nil
}

// serverLines takes what the HTTP server prints. Any client can cause failed handshakes, so they
// are logged at DEBUG. That no connection is accepted goes to the program's default logger.
type serverLines struct{ log *slog.Logger }

func (l serverLines) Write(line []byte) (int, error) {
	if text := string(line); strings.HasPrefix(text, "http: Accept error") {
		stdlog.Print(text)
	} else {
		l.log.Debug(strings.TrimSpace(text))
	}
	return len(line), nil
}

// certificates returns a configuration that follows the files.
func certificates(c Config, log *slog.Logger) (*tls.Config, error) {
	pair := &reloader[tls.Certificate]{
		what:  "the TLS certificate and its key",
		paths: []string{c.TLSCert, c.TLSKey},
		load: func(files [][]byte, err error) (tls.Certificate, error) {
			if err != nil {
				return tls.Certificate{}, err
			}
			return tls.X509KeyPair(files[0], files[1])
		},
		every: c.ReloadInterval, log: log,
	}
	if err := pair.start(); err != nil {
		return nil, fmt.Errorf("%s and %s must be PEM files that belong together: %w", certSetting, keySetting, err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate := pair.get()
			return &certificate, nil
		},
	}, nil
}

// warn logs settings that are allowed and rarely intended.
func (s *Server) warn(c Config) {
	if OnLoopback(c.Addr) {
		return
	}
	if !c.authenticates() {
		s.handler.log.Warn("requests need no token: each sender that reaches the address can write any user's profile",
			slog.String("addr", c.Addr), slog.String("hint", "name tokens with "+tokenFileSetting.String()))
	} else if !s.encrypted && !c.BehindProxy {
		s.handler.log.Warn("tokens travel unencrypted", slog.String("addr", c.Addr),
			slog.String("hint", fmt.Sprintf("set %s and %s, or put a proxy with TLS in front", certSetting, keySetting)))
	}
}

// ServeHTTP answers those that the guard lets in.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.answer(w, r, s.guard.enter)
}

// TokenFault returns what is wrong with the token file now: tokens that cannot
// be read in it are refused. It is nil where there is no token file.
func (s *Server) TokenFault() error {
	if s.guard.tokens == nil {
		return nil
	}
	return s.guard.tokens.faulty()
}

// Scheme is "https" where certificates are configured and otherwise "http".
func (s *Server) Scheme() string {
	if s.encrypted {
		return "https"
	}
	return "http"
}

// Serve answers connections, with TLS where it is configured, until Shutdown or
// Close; then it returns [http.ErrServerClosed].
func (s *Server) Serve(listener net.Listener) error {
	if s.encrypted {
		return s.http.ServeTLS(listener, "", "")
	}
	return s.http.Serve(listener)
}

// Shutdown takes no more requests and waits for those under way, until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.handler.closeLog()
	return s.http.Shutdown(ctx)
}

// Close ends every connection at once.
func (s *Server) Close() error { return s.http.Close() }
