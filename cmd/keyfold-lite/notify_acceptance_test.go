package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/sqlite"
)

// U2: in quiet hours from 22:00 to 07:00 in Berlin nothing is decided NOW unless a rule
// forces it or its type ignores them, also in the nights in which the clocks change.
//
// Promise(acceptance/u2): U2: quiet hours hold in the nights in which the clocks change.
func TestNotifyU2QuietHoursWhenClocksChange(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	must.OK(t, err)
	var users, events strings.Builder
	posted := 0
	for _, evening := range []string{"2026-03-28T18:00:00Z", "2026-10-24T18:00:00Z"} {
		begin, err := time.Parse(time.RFC3339, evening)
		must.OK(t, err)
		for at := begin; at.Before(begin.Add(15 * time.Hour)); at = at.Add(7 * time.Minute) {
			for _, kind := range []string{"SECURITY", "MESSAGE", "UPDATE"} {
				user := fmt.Sprint("user-", posted)
				fmt.Fprintf(&users, `{"user_id":%q,"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00"}]}`+"\n", user)
				fmt.Fprintf(&events, `{"event_id":%q,"user_id":%q,"event_type":%q,"title":"a title","source":"test","channel":["push"],"timestamp":%q}`+"\n",
					uuid.NewSHA1(uuid.Nil, []byte(user)), user, kind, at.Format(time.RFC3339))
				posted++
			}
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	notified(t, events.String(), "--data", data, "--events", "-", "--users", writeFile(t, "users.ndjson", users.String()))
	reader, err := sqlite.OpenReader(filepath.Join(data, ledgerName))
	must.OK(t, err)
	defer func() { _ = reader.Close() }()
	decided, held, security := map[uuid.UUID]bool{}, 0, 0
	for d, err := range reader.Records(t.Context(), ledger.Filter{}) {
		must.OK(t, err)
		r := d.Record
		decided[r.EventID] = true
		local := r.DecidedAt.Time().In(berlin)
		if asleep := local.Hour() >= 22 || local.Hour() < 7; !asleep {
			continue
		}
		switch {
		case r.Type == notify.Security && r.Outcome == notify.Now:
			security++
		case r.Outcome == notify.Later:
			held++
		default:
			t.Errorf("%s is %s %v at %s", r.Type, r.Outcome, r.Reasons, local)
		}
	}
	if len(decided) != posted || held == 0 || security == 0 {
		t.Errorf("%d of %d decided, %d held, %d of SECURITY", len(decided), posted, held, security)
	}
}
