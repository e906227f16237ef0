package httpapi

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine/metric"
	"keyfold/internal/testserver/must"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// Tokens are replaced under a running server. What the file does not list any
// more is refused, also where the rest of the file is at fault: its good lines
// count. A file that cannot be read lists nothing, and the sender is told that
// it may be the server's fault. Each fault is told once.
//
// Promise(security/token-file): What an emptied, removed or damaged token file does not list is
// refused within a second; good lines count; metric and `/readyz` tell.
func TestTokenRotation(t *testing.T) {
	const first, second, third, listed = "first-token-00001", "other-token-00002", "third-token-00003", "always-token-0004"
	c := onLoopback()
	c.TokenFile = filepath.Join(t.TempDir(), "tokens")
	c.Tokens = []string{listed}
	write(t, c.TokenFile, first+"\n")
	var logged bytes.Buffer
	s, err := NewServer(c, NewHandler(newMemory(), slog.New(slog.NewTextHandler(&logged, nil))))
	must.OK(t, err)
	faults := 0
	check := func(when, fault string, want map[string]int) {
		t.Helper()
		want[listed] = 202
		for range 3 {
			for token, code := range want {
				if got := status(t, s, from("192.0.2.1:9", token)); got != code {
					t.Errorf("%s: %s meets %d, want %d", when, token, got, code)
				}
			}
		}
		err, gauge := s.TokenFault(), "keyfold_ingest_token_file_faulty 0\n"
		if fault != "" {
			faults++
			gauge = "keyfold_ingest_token_file_faulty 1\n"
		}
		if (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: the fault is %v, want %q", when, err, fault)
		}
		var set metric.Set
		var metrics bytes.Buffer
		s.Register(&set)
		if set.WritePrometheus(&metrics); !strings.Contains(metrics.String(), gauge) {
			t.Errorf("%s: no %s in %s", when, gauge, metrics.String())
		}
		if n := strings.Count(logged.String(), "are at fault"); n != faults {
			t.Errorf("%s: %d faults are told, want %d: %s", when, n, faults, logged.String())
		}
	}
	check("at first", "", map[string]int{first: 202, second: 401})
	write(t, c.TokenFile, second+"\n") // of the same length, within one tick perhaps
	check("replaced", "", map[string]int{first: 401, second: 202})
	write(t, c.TokenFile, first+"\n"+second+"\n")
	check("both", "", map[string]int{first: 202, second: 202})
	write(t, c.TokenFile, "")
	check("emptied", "has no token", map[string]int{first: 401, second: 401, third: 401})
	must.OK(t, os.Remove(c.TokenFile))
	check("gone", "no such file", map[string]int{first: 503, second: 503, third: 503, "": 401})
	write(t, c.TokenFile+".new", third+"\n")
	must.OK(t, os.Rename(c.TokenFile+".new", c.TokenFile))
	check("back", "", map[string]int{first: 401, second: 401, third: 202})
	write(t, c.TokenFile, "short\n"+second+"\nshort\n")
	check("bad lines", "line 1", map[string]int{first: 401, third: 401, second: 202, "short": 401})
	write(t, c.TokenFile, strings.Repeat("x", maxFile+1))
	check("no token file", "bytes", map[string]int{second: 503, third: 503})
	must.OK(t, os.Remove(c.TokenFile))
	must.OK(t, os.Mkdir(c.TokenFile, 0o700))
	check("a folder", "is a directory", map[string]int{second: 503, third: 503})
	for _, token := range []string{first, second, third, listed, "short"} {
		if strings.Contains(logged.String(), token) {
			t.Errorf("the log has the token %s", token)
		}
	}
}

// loaded is a load of one file that keeps its text.
func loaded(files [][]byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return string(files[0]), nil
}

// A file that was replaced is read again, also where it looks as before: of the same size,
// time and place on the disk.
//
// Promise(security/replaced-files): A replaced token file or certificate of the same size and time is
// read again; a FIFO is refused and nothing waits for it.
func TestReplacedFilesThatLookTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	old := time.Now().Add(-time.Hour)
	set := func(text string) {
		write(t, path, text)
		must.OK(t, os.Chtimes(path, old, old))
	}
	set("one")
	r := &reloader[string]{paths: []string{path}, log: slog.New(slog.DiscardHandler), load: loaded}
	must.OK(t, r.start())
	set("two")
	if got := r.get(); got != "two" {
		t.Errorf("it has %q", got)
	}
}

// Files are looked at once an interval, and a value is made of them only when they have
// changed.
func TestFilesAreReadSeldom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "x")
	loads := 0
	r := &reloader[int]{
		paths: []string{path}, log: slog.New(slog.DiscardHandler), every: time.Hour,
		load: func([][]byte, error) (int, error) { loads++; return loads, nil },
	}
	must.OK(t, r.start())
	write(t, path, "another")
	if r.get() != 1 {
		t.Error("looked at before its time")
	}
	r.every = 0
	r.due.Store(0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				r.get()
			}
		})
	}
	all.Wait()
	if r.get() != 2 {
		t.Errorf("it was loaded %d times", loads)
	}
}

// pair writes a self-signed certificate for 127.0.0.1 and its key.
func pair(t *testing.T, c Config, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.OK(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(t, err)
	write(t, c.TLSCert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, c.TLSKey, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// Certificates are replaced under a running server.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	c := onLoopback()
	c.TLSCert, c.TLSKey = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pair(t, c, "first")
	s := newTestServer(t, c, newMemory())
	addr := listen(t, s)
	name := func() string {
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
		response, err := client.Post(s.Scheme()+"://"+addr+"/v1/events", asJSON, strings.NewReader(view(1)))
		must.OK(t, err)
		defer response.Body.Close()
		if response.StatusCode != http.StatusAccepted || response.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%d with %v", response.StatusCode, response.Header)
		}
		return response.TLS.PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "first" {
		t.Errorf("it shows %q", got)
	}
	pair(t, c, "second")
	if got := name(); got != "second" {
		t.Errorf("replaced, it shows %q", got)
	}
	write(t, c.TLSKey, "")
	if got := name(); got != "second" {
		t.Errorf("with the key gone it shows %q", got)
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", addr, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
