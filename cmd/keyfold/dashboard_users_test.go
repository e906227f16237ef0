package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/outbox"
)

var (
	pageAddress = regexp.MustCompile(`"dashboard listening","url":"(http://[^"]+)/"`)
	pageMarkup  = regexp.MustCompile(`<[^>]*>`)
)

// pagesOf serves pages, and returns their address.
func pagesOf(t *testing.T, flags ...string) string {
	t.Helper()
	d := startDaemon(t, append([]string{"dashboard", "--dashboard-addr=127.0.0.1:0"}, flags...)...)
	var url string
	eventually(t, "the dashboard listens", func() error {
		found := pageAddress.FindStringSubmatch(d.log.String())
		if found == nil {
			return fmt.Errorf("logged %s", d.log)
		}
		url = found[1]
		return nil
	})
	return url
}

// shows waits until a page has these texts, and returns what a person reads of it.
func shows(t *testing.T, url string, want ...string) (text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %q", url, want), func() error {
		res, err := http.Get(url)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		text = strings.Join(strings.Fields(html.UnescapeString(pageMarkup.ReplaceAllString(string(body), " "))), " ")
		for _, w := range want {
			if !strings.Contains(text, w) {
				return fmt.Errorf("%d: %s", res.StatusCode, text)
			}
		}
		return nil
	})
	return text
}

// The page of a user is made of MongoDB and the SQL history, has what the commands print, shows an
// event that waits and then counts, and says in its place what is away.
func TestDashboardOfUsers(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newShop(t, outbox.SQLite)
	ingest := s.ingest(t)
	ingest.accepted(sorted(t, sampleOf(t, 200))...)
	s.allSent(t)
	worker := s.work(t, quick)
	worker.ready()
	o := s.expect(t, sorted(t, s.bodies(t)))
	s.folded(t, int64(o.Folded))
	url := pagesOf(t, s.flags()...)

	text := shows(t, url+"/users/1", "Nearest products", "Last events", "folded", "Recommended, without what was bought", "refolded from ", "equal to the stored profile")
	for _, command := range [][]string{{"user", "show", "1"}, {"user", "explain", "1", "--together", "--events", "0"}, {"recommend", "1", "--exclude", "bought"}} {
		for _, line := range strings.Split(s.must(t, command...), "\n") {
			found := regexp.MustCompile(`^ +(\d\.\d{3})  ([^:(]*[^:( ])`).FindStringSubmatch(line)
			if found != nil && (!strings.Contains(text, found[1]) || !strings.Contains(text, found[2])) {
				t.Errorf("%v prints %q, which the page has not: %s", command, line, text)
			}
		}
	}
	shows(t, url+"/users/999999", "user 999999 has no profile in the database")

	worker.stop()
	ingest.accepted([]byte(fmt.Sprintf(`{"user_id":1,"event_type":"search","search_phrase":"something new","occurred_at":%q}`, time.Now().UTC().Format(time.RFC3339Nano))))
	s.allSent(t)
	shows(t, url+"/users/1", "1 event waits for its window", `search "something new"`)
	s.work(t, quick).ready()
	shows(t, url+"/users/1", `search "something new" folded`, "the last write")

	s.must(t, "user", "forget", "1", "--yes")
	if text := shows(t, url+"/users/1", "user 1 was erased at "); strings.Contains(text, "Nearest products") {
		t.Errorf("an erased user: %s", text)
	}
	s.url = "sqlite:///nowhere/at/all.db"
	shows(t, pagesOf(t, s.flags()...)+"/users/2", "Nearest products", "events are not shown: ", "no history: ", "all of it is remainder")
}

// Where there is a ledger, the page has what `notify user show` prints; MongoDB may be away meanwhile.
func TestDashboardOfUsersHasTheirNotifications(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := newNotifyStack(t)
	now := engine.Now()
	events := n.fill(t, []string{"17"}, notify.Later, now, now+7_200_000)
	url := pagesOf(t, "--rabbitmq-dsn", n.dsn, "--notify-database-url", n.database, "--mongodb-uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500", "--embedder", "hash")
	text := shows(t, url+"/users/17", "the profile cannot be read now: ", "Notifications", "LATER", "waits until")
	if !strings.Contains(text, events[0].String()) {
		t.Errorf("the page has not the event %v: %s", events[0], text)
	}
	shows(t, url+"/users/18", "No notification was decided for this user.")
}
