package dashboard

import (
	"fmt"
	"net/http"
	"testing"

	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// BenchmarkPages is what a page costs of an installation with 50 processes.
func BenchmarkPages(b *testing.B) {
	r := quiet(90)
	lag := 10.0
	for i := range 50 - len(r.Processes) {
		r.Processes = append(r.Processes, worker(fmt.Sprintf("10.0.1.%d:9090", i), 90, &lag))
	}
	r.Problems = []status.Problem{{About: "MongoDB", Text: "away", Runbook: "keyfoldstoredown"}}
	config := onLoopback()
	config.Sender, config.Total = httpapi.Rate{}, httpapi.Rate{} // without a bound
	s := guarded(b, shownAs(b, Config{}, everything(), r), config)
	for _, path := range []string{"/", "/workers", "/alerts", "/users/7", failuresPath, notificationsPath, rulesPath, "/runbook"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if res, page := get(b, s, path); res.StatusCode != http.StatusOK || len(page) > 60<<10 && path != "/runbook" {
					b.Fatalf("%d, %d bytes", res.StatusCode, len(page))
				}
			}
		})
	}
}
