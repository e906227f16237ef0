package main

import (
	"net"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// Who reads that an API is ready sends requests at once, so its port is open before the admin
// endpoint can say so. A port that is taken shows the order.
func TestPortIsOpenBeforeReadiness(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer taken.Close()
	s := newShop(t, outbox.SQLite)
	notifying := &notifyStack{dsn: s.dsn, database: newDatabase(t, outbox.PostgreSQL)}
	notifying.must(t, "setup")
	for command, args := range map[string][]string{
		"ingest":       s.flags(),
		"serve":        s.flags(),
		"notify serve": {"--rabbitmq-dsn", s.dsn, "--notify-database-url", notifying.database, "--admin-addr=127.0.0.1:0"},
	} {
		t.Run(command, func(t *testing.T) {
			code, _, errs := keyfold(t.Context(), "", slices.Concat(strings.Fields(command), args, []string{"--http-addr", taken.Addr().String()})...)
			if code != 1 || !strings.Contains(errs, "HTTP_ADDR: listen tcp") || !strings.Contains(errs, "port 0 for any free one") {
				t.Errorf("%d %s", code, errs)
			}
			if strings.Contains(errs, "admin endpoint") {
				t.Errorf("the admin endpoint answered without the API's port:\n%s", errs)
			}
		})
	}
}
