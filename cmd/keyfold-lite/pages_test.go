package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

var markup = regexp.MustCompile(`<[^>]*>`)

// pageText is what a person reads of a page.
func pageText(t *testing.T, url string, want int) string {
	t.Helper()
	resp, err := http.Get(url)
	must.OK(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s is answered %d: %v, %s", url, resp.StatusCode, err, body)
	}
	return strings.Join(strings.Fields(html.UnescapeString(markup.ReplaceAllString(string(body), " "))), " ")
}

// pageShows reads a page until it has all of these texts.
func pageShows(t *testing.T, url string, want ...string) (text string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text = pageText(t, url, http.StatusOK)
		has := true
		for _, w := range want {
			has = has && strings.Contains(text, w)
		}
		if has {
			return text
		}
	}
	t.Fatalf("%s has not %q: %s", url, want, text)
	return ""
}

// An event that is posted waits for its window on the page of its user, with a countdown; once it
// is folded, the products that it brought nearer say so. The page shows what the commands print.
//
// Promise(lite/watch): The page of a user shows a posted event as waiting, with a countdown, then as folded, and marks the
// products that changed places.
func TestWatchItLearn(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	// A window closes at its second event, and by no clock.
	url, _ := server(t, small, "--data", data, "--products", shopFile(t), "--batch-window=1h", "--batch-max-delay=1h", "--batch-max-size=2")
	person := url + "/ui/users/7"
	if text := pageText(t, person, http.StatusOK); !strings.Contains(text, "user 7 has no profile in "+data+": no event of this user was folded") {
		t.Errorf("an unknown user: %s", text)
	}
	now := time.Now().UTC()
	say := func(id, event string) {
		t.Helper()
		now = now.Add(time.Millisecond)
		body := fmt.Sprintf(`{"user_id":7,"message_id":%q,"occurred_at":%q,%s}`, id, now.Format(time.RFC3339Nano), event)
		if code, answer := post(t, url, body); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, answer)
		}
	}
	search := func(phrase string) string { return fmt.Sprintf(`"event_type":"search","search_phrase":%q`, phrase) }

	say("m1", search("coffee grinder"))
	text := pageShows(t, person, "1 event waits for its window, which is written in ", `search "coffee grinder" ● waits`)
	if !strings.Contains(text, "user 7 has no profile yet") {
		t.Errorf("before the first write: %s", text)
	}
	say("m2", search("coffee beans"))
	text = pageShows(t, person, "this is the first write, of 2 events", `search "coffee grinder" folded`, "refolded from 2 events, equal to the stored profile")
	if strings.Contains(text, "waits") || strings.Contains(text, "▲") {
		t.Errorf("after the first write: %s", text)
	}
	say("m3", search("running shoes"))
	pageShows(t, person, "1 event waits for its window, which is written in ", `search "running shoes" ● waits`, `search "coffee beans" folded`)
	say("m4", search("trail running shoes"))
	text = pageShows(t, person, "events 4", "marked: what the last write changed, of 2 events", `search "running shoes" folded`, "▲", "refolded from 4 events")
	if !regexp.MustCompile(`▲ (up from \d+|new, was not among the first 30): [\d.]+ % of it from 2 events, most from search "(trail )?running shoes"`).MatchString(text) {
		t.Errorf("no product says why it came nearer: %s", text)
	}
	if text := pageText(t, person+"?without=m4&half-life=1h", http.StatusOK); !strings.Contains(text, "without m4 (1 event): cosine 0.") || !strings.Contains(text, "at a half-life of 1h: cosine ") {
		t.Errorf("what if: %s", text)
	}

	_, shown, _ := lite(t, "", "user", "show", "7", "--data", data)
	for _, cosine := range regexp.MustCompile(`\d\.\d{3} `).FindAllString(shown, -1) {
		if !strings.Contains(text, cosine) {
			t.Errorf("user show prints %s, which the page has not: %s", cosine, text)
		}
	}
	_, explained, _ := lite(t, "", "user", "explain", "7", "--data", data, "--together", "--events", "100")
	for _, share := range regexp.MustCompile(`\d+\.\d %`).FindAllString(explained, -1) {
		if !strings.Contains(text, share) {
			t.Errorf("user explain prints %s, which the page has not: %s", share, text)
		}
	}
}

// The pages stand beside the API: each has its own form of a refusal, a page is reached by its
// user's number, and a page of another site cannot read it by another name of this host.
func TestPagesBesideTheAPI(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	if code, out, errs := lite(t, "", "--data", data, "--sample", "100", "--exit"); code != 0 || !strings.Contains(out, "serve") || !regexp.MustCompile(`in a browser http://127.0.0.1:7080/ui/users/\d+`).MatchString(out) {
		t.Fatalf("%d: %s %s", code, out, errs)
	}
	url, _ := server(t, "--data", data)
	if text := pageText(t, url+"/ui/users", http.StatusOK); !strings.Contains(text, "Users of the last events") || !strings.Contains(text, "user 1 ") {
		t.Errorf("the users: %s", text)
	}
	if text := pageText(t, url+"/ui/search?q=1", http.StatusOK); !strings.Contains(text, "User 1 events") || !strings.Contains(text, "Recommended, without what was bought") {
		t.Errorf("a search for a number: %s", text)
	}
	if text := pageText(t, url+"/ui/nothing", http.StatusNotFound); strings.Contains(text, `"errors"`) {
		t.Errorf("a page that there is not: %s", text)
	}
	if text := pageText(t, url+"/v1/nothing", http.StatusNotFound); !strings.Contains(text, `"errors"`) {
		t.Errorf("a path of the API that there is not: %s", text)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/ui/users/1", nil)
	must.OK(t, err)
	request.Host = "evil.example"
	resp, err := http.DefaultClient.Do(request)
	must.OK(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("by a foreign name: %d", resp.StatusCode)
	}
}

// Of an erased user the page says so, as the command does.
func TestPageOfAnErasedUser(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, errs := lite(t, "", "--data", data, "--sample", "100", "--exit"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := lite(t, "", "user", "forget", "1", "--data", data, "--yes"); code != 0 {
		t.Fatal(errs)
	}
	_, shown, _ := lite(t, "", "user", "show", "1", "--data", data)
	url, _ := server(t, "--data", data)
	if text := pageText(t, url+"/ui/users/1", http.StatusOK); !strings.Contains(text, strings.TrimSpace(shown)) || strings.Contains(text, "Nearest") {
		t.Errorf("the command says %q, the page %s", shown, text)
	}
}

// The first page says what this process does, and names events that cannot be folded with what to
// do; of a daemon's pages it has none.
func TestTheOverviewOfOneProcess(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	url, _ := server(t, small, "--data", data, "--products", shopFile(t), "--batch-window=1h", "--batch-max-delay=1h", "--batch-max-size=2")
	if text := pageShows(t, url+"/ui/", "Nothing needs a person.", "SQLite "+data, "Backlog 0", "keyfold-lite"); strings.Contains(text, "Workers") || strings.Contains(text, "Runbook") {
		t.Errorf("a page of several processes is offered: %s", text)
	}
	body := fmt.Sprintf(`{"user_id":7,"event_type":"search","search_phrase":"coffee","occurred_at":%q}`, time.Now().UTC().Format(time.RFC3339Nano))
	if code, answer := post(t, url, body); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, answer)
	}
	pageShows(t, url+"/ui/", "profiles: events 1 ")
	input := filepath.Join(t.TempDir(), "events.ndjson")
	must.OK(t, os.WriteFile(input, []byte("no event\n"+body+"\n"), 0o600))
	other := filepath.Join(t.TempDir(), "other")
	if code, _, errs := lite(t, "", small, "--data", other, "--events", input, "--no-products", "--exit"); code != 0 {
		t.Fatalf("%d: %s", code, errs)
	}
	url, _ = server(t, small, "--data", other)
	pageShows(t, url+"/ui/", "dead events 1 event cannot be folded: malformed_json (1)", "failed list shows where each was read", "profiles: dead letters")
}
