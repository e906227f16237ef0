package ingest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

// nothing stores nothing, at once.
type nothing struct{}

func (nothing) Add(_ context.Context, entries []profile.Entry) ([]bool, error) {
	return make([]bool, len(entries)), nil
}

// discard is a response nobody reads.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkServe is what the API costs apart from the store and the network,
// with a token and both rates on.
func BenchmarkServe(b *testing.B) {
	for _, n := range []int{1, 100} {
		for _, form := range []string{"complete", "to complete"} {
			b.Run(fmt.Sprintf("%d events/%s", n, form), func(b *testing.B) {
				all := views(0, n)
				if form == "complete" {
					for i := range all {
						all[i] = strings.TrimSuffix(all[i], "}") + fmt.Sprintf(`,"message_id":"%064d","version":"1.0"}`, i)
					}
				}
				body := "[" + strings.Join(all, ",") + "]"
				c := onLoopback("another-token-000", goodToken)
				c.Total, c.Sender = httpapi.Rate{PerSecond: 1e9, Burst: 1e9}, httpapi.Rate{PerSecond: 1e9, Burst: 1e9}
				s := newTestServer(b, c, nothing{})
				r := httptest.NewRequest(http.MethodPost, "/v1/events", nil)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+goodToken)
				r.ContentLength = int64(len(body))
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					w := discard{header: http.Header{}}
					r.Body = closer{strings.NewReader(body)}
					s.ServeHTTP(&w, r)
					if w.status != http.StatusAccepted {
						b.Fatal(w.status)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

type closer struct{ *strings.Reader }

func (closer) Close() error { return nil }
