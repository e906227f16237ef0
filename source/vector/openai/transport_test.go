package openai

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"

	"keyfold/internal/testserver/must"
)

// Connections are as Go's own client makes them: through the environment's proxies,
// with HTTP/2 where the server has it.
func TestTransport(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("it came with %s", r.Proto)
		}
		_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[1,2]}]}`)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	config := DefaultConfig()
	config.BaseURL, config.Dimensions = s.URL, 2
	c, err := New(config)
	must.OK(t, err)
	defer c.Close()
	transport := c.http.Transport.(*http.Transport)
	if reflect.ValueOf(transport.Proxy).Pointer() != reflect.ValueOf(http.ProxyFromEnvironment).Pointer() {
		t.Error("it passes the environment's proxies by")
	}
	if transport == http.DefaultTransport {
		t.Error("it shares its connections with the program")
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	if _, err := c.Embed(t.Context(), []string{"mug"}); err != nil {
		t.Error(err)
	}
}

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://API.example.com/v1": "https://api.example.com:443", "https://api.example.com:443": "https://api.example.com:443",
		"http://h": "http://h:80", "http://[::1]:8080/x": "http://::1:8080",
	} {
		u, err := url.Parse(address)
		if err != nil || origin(u) != want {
			t.Errorf("%s: %s, %v", address, origin(u), err)
		}
	}
}
