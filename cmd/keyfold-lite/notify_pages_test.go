package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
)

// The pages beside the API have decisions with their explanation, by what `notify explain` prints, and
// the set of rules; another program has the pages of decisions too.
func TestPagesOfNotifications(t *testing.T) {
	data := t.TempDir()
	t.Run("notify serve", func(t *testing.T) { pagesBesideNotify(t, data) })
	folded, _ := server(t, "--data", data)
	pageShows(t, folded+"/ui/notifications/"+postedID, "security-now")
	pageShows(t, folded+"/ui/users", "Notifications")
	file := t.TempDir() + "/own.json"
	must.OK(t, os.WriteFile(file, rule.Default(), 0o600))
	pageShows(t, notifyServer(t, "--data", t.TempDir(), "--rules", file)+"/ui/rules", "own.json")
}

// postedID is the event_id of the notification that is posted.
const postedID = "6f6c4d00-8000-4000-8000-000000000001"

func pagesBesideNotify(t *testing.T, data string) {
	const id = postedID
	at := notifyServer(t, "--data", data)
	body := `{"event_id":"` + id + `","user_id":"17","event_type":"SECURITY","title":"Your secret code","source":"login","channel":["push"],"timestamp":"` + time.Now().UTC().Format(time.RFC3339) + `"}`
	res, err := http.Post(at+"/v1/notifications", "application/json", strings.NewReader(body))
	must.OK(t, err)
	_ = res.Body.Close()
	pageShows(t, at+"/ui/notifications", "Decisions of the last 24 hours: 1", "NOW SECURITY_ALWAYS 1", "Waiting: 0")
	pageShows(t, at+"/ui/notifications?q=17", "NOW", "SECURITY_ALWAYS")
	text := pageShows(t, at+"/ui/notifications/"+id, "Stages, with what each saw", "security-now")
	code, printed, errs := lite(t, "", "notify", "explain", id, "--stages", "--data", data)
	if code != 0 {
		t.Fatal(errs)
	}
	for word := range strings.FieldsSeq(strings.ReplaceAll(printed, `"Your secret code" `, "")) {
		if word = strings.Trim(word, `,:"`); word != "stages" && !strings.Contains(text, word) {
			t.Errorf("the page lacks %q of what the command prints", word)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a title is shown: %s", text)
	}
	pageShows(t, at+"/ui/rules", "set 1 in force since", "the shipped set")
	pageShows(t, at+"/ui/rules/1", "security-now", "SECURITY_ALWAYS")
	for path, want := range map[string]int{"/ui/rules/2": 404, "/ui/rules/1/diff/1": 404, "/ui/nowhere": 404, "/ui/workers": 404, "/v1/nowhere": 404, "/ui/audit": 404} {
		pageText(t, at+path, want)
	}
}
