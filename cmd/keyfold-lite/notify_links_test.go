package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/internal/testserver/must"
	"keyfold/sink/senders/message"
)

// sendAll is a set with these topics that sends all at once.
func sendAll(topics string) string {
	return `{"version":"1","policy":{"topics":[` + topics + `]},"rules":[{"rule_id":"6b657966-6f6c-4d00-8000-0000000000aa","name":"all","priority":1,"version":"1.0.0",
		"enabled":true,"conditions":{"field":"turn","operator":"gte","value":0},"action":{"outcome":"NOW","reason_code":"ALL"}}]}`
}

// Each message that is sent has the links of its user, which lead to the pages of the same
// program: one click there, and the next one is not sent.
//
// Promise(acceptance/links): A message's links lead to the pages: after one click the next notification of the kind is not sent.
func TestNotifyLinks(t *testing.T) {
	sent := filepath.Join(t.TempDir(), "sent.ndjson")
	key := writeFile(t, "key", "a key of a test, which has 32 bytes and more\n")
	rules := writeFile(t, "rules.json", sendAll(""))
	address := notifyServer(t, "--data", t.TempDir(), "--send-to", sent, "--rules", rules, "--link-key-file", key, "--link-url", "https://shop.example/n")
	post := func() (answer struct {
		Decisions []struct {
			Outcome string
			Reasons []string
		}
	},
	) {
		body := nowEvent(uuid.New(), "17", "REMINDER", "one of "+uuid.NewString())
		if status := asked(t, "POST", address+"/v1/notifications", "application/json", body, &answer); status != 200 || len(answer.Decisions) != 1 {
			t.Fatalf("%d %+v", status, answer)
		}
		return answer
	}
	if d := post().Decisions[0]; d.Outcome != "NOW" {
		t.Fatalf("%+v", d)
	}
	line, err := os.ReadFile(sent)
	var m message.Message
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err != nil || m.Links == nil {
		t.Fatalf("%s: %v", line, err)
	}
	here := func(link string) string {
		path, ok := strings.CutPrefix(link, "https://shop.example/n/")
		if !ok {
			t.Fatalf("the link is %s", link)
		}
		return address + "/" + path
	}
	page, err := http.Get(here(m.Links.Preferences))
	must.OK(t, err)
	text, err := io.ReadAll(page.Body)
	if page.Body.Close(); err != nil || page.StatusCode != http.StatusOK || !strings.Contains(string(text), "Notification preferences") {
		t.Errorf("%d %s", page.StatusCode, text)
	}
	click, err := http.PostForm(here(m.Links.Unsubscribe), url.Values{"List-Unsubscribe": {"One-Click"}})
	must.OK(t, err)
	if click.Body.Close(); click.StatusCode != http.StatusOK {
		t.Errorf("one click: %d", click.StatusCode)
	}
	if d := post().Decisions[0]; d.Outcome != "NEVER" {
		t.Errorf("after one click: %+v", d)
	}
	var own struct{ Muted []string }
	if status := asked(t, "GET", address+"/v1/users/17/preferences", "", "", &own); status != 200 || len(own.Muted) != 1 {
		t.Errorf("%d %+v", status, own)
	}
}

// Settings of links at fault are named before anything is done.
func TestNotifyLinkFaults(t *testing.T) {
	for want, args := range map[string][]string{
		"NOTIFY_LINK_URL": {"--link-key-file", writeFile(t, "key", "a key of a test, which has 32 bytes and more")},
		"has 5 bytes":     {"--link-key-file", writeFile(t, "key", "short"), "--link-url", "https://shop.example"},
	} {
		if code, _, errs := lite(t, "", append([]string{"notify", "serve", "--data", t.TempDir()}, args...)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%v: %d: %s", args, code, errs)
		}
	}
}

// An import names the lines at fault, stores the others and ends with 1; a second one changes
// nothing.
//
// Promise(notify/import)
func TestNotifyUserImport(t *testing.T) {
	data := t.TempDir()
	const lines = `{"user_id":"17","topics":{"offers":{"channels":{"push":"off"}}}}
{"user_id":"18","zonne":"UTC","paused":"no"}
{"user_id":"19","attributes":{"plan":"pro"}}
`
	args := []string{"notify", "user", "import", "-", "--data", data}
	code, out, errs := lite(t, lines, append(args, "--dry-run")...)
	if code != 1 || !strings.Contains(out, "3 lines: 2 would be stored, 0 unchanged, 1 refused") {
		t.Errorf("a dry run: %d: %s%s", code, out, errs)
	}
	for run, want := range []string{"3 lines: 2 stored, 0 unchanged, 1 refused", "3 lines: 0 stored, 2 unchanged, 1 refused"} {
		code, out, errs := lite(t, lines, args...)
		if code != 1 || !strings.Contains(out, want) || !strings.Contains(errs, ":2: zonne: no such field") || !strings.Contains(errs, `:2: paused: found "no"`) {
			t.Errorf("run %d: %d: %s%s", run, code, out, errs)
		}
	}
	if code, out, _ := lite(t, "", "notify", "user", "show", "17", "--data", data); code != 0 || !strings.Contains(out, `"offers"`) {
		t.Errorf("%d: %s", code, out)
	}
	if code, out, errs := lite(t, `{"user_id":"18"}`, append(args, "-o", "json")...); code != 0 || !strings.Contains(out, `"stored":1`) {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// With topics the link unsubscribes from one by e-mail: what comes later goes out on the other
// channels. A locked topic has no such link.
func TestNotifyLinksOfTopics(t *testing.T) {
	sent := filepath.Join(t.TempDir(), "sent.ndjson")
	key := writeFile(t, "key", "a key of a test, which has 32 bytes and more\n")
	rules := writeFile(t, "rules.json", sendAll(`{"name":"cart","title":"Your cart","types":["REMINDER"]},
		{"name":"orders","title":"Orders","types":["UPDATE"],"locked":true}`))
	address := notifyServer(t, "--data", t.TempDir(), "--send-to", sent, "--rules", rules, "--link-key-file", key, "--link-url", "https://shop.example/n")
	next := func(kind string) (m message.Message) {
		body := strings.Replace(nowEvent(uuid.New(), "17", kind, "one of "+uuid.NewString()), `["push"]`, `["email","push"]`, 1)
		if status := asked(t, "POST", address+"/v1/notifications", "application/json", body, nil); status != 200 {
			t.Fatal(status)
		}
		text, err := os.ReadFile(sent)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if err == nil {
			err = json.Unmarshal([]byte(lines[len(lines)-1]), &m)
		}
		if err != nil || m.EventType != kind {
			t.Fatalf("%s: %v", text, err)
		}
		return m
	}
	if m := next("UPDATE"); m.Links.Preferences == "" || m.Links.Unsubscribe != "" {
		t.Errorf("a locked topic: %+v", m.Links)
	}
	m := next("REMINDER")
	if len(m.Channels) != 2 {
		t.Fatalf("%+v", m)
	}
	target := strings.Replace(m.Links.Unsubscribe, "https://shop.example/n", address, 1)
	for _, c := range []struct {
		field, value, says string
		channels           int
	}{{"List-Unsubscribe", "One-Click", "Your cart by email", 1}, {"undo", "1", "Subscribed again", 2}} {
		answer, err := http.PostForm(target, url.Values{c.field: {c.value}})
		must.OK(t, err)
		text, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), c.says) {
			t.Errorf("%s: %d %s", c.field, answer.StatusCode, text)
		}
		if m := next("REMINDER"); len(m.Channels) != c.channels {
			t.Errorf("after %s: %v", c.field, m.Channels)
		}
	}
}
