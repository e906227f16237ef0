package ingest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Time limits of a connection. The answer's includes reading the body and the
// store's commit.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second
	answerTimeout = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
)

// NewServer returns a server for handler on addr, host:port of a loopback
// interface. Other addresses are refused: whoever reaches the port may write
// any user's profile, and there are neither tokens nor TLS here.
func NewServer(addr string, handler http.Handler) (*http.Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("HTTP_ADDR is %q: it must be host:port, such as 127.0.0.1:7080: %w", addr, err)
	}
	if !isLoopback(host) {
		return nil, fmt.Errorf("HTTP_ADDR is %q: only loopback addresses are served, since requests are neither authenticated nor encrypted; "+
			"set 127.0.0.1:7080, and put a reverse proxy with both in front to reach it from elsewhere", addr)
	}
	return &http.Server{
		Addr:              addr,
		Handler:           loopbackOnly(handler),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}, nil
}

// loopbackOnly refuses requests made under a name that is not the loopback's
// own. A browser that was led here by another site's DNS names that site.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(hostname(r.Host)) {
			faultOf(http.StatusForbidden, "foreign_host",
				fmt.Sprintf("the host %s is not this machine's loopback: use localhost or 127.0.0.1", short(r.Host))).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname cuts the port off a Host header.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
