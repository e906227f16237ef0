package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/broker"
	"keyfold/sink/senders/message"
)

// A worker's message has the links of its user, and serve has the pages that they lead to: one
// click there turns e-mail of the topic off. Preferences are imported beside it, and an API token opens
// the API alone.
//
// Promise(acceptance/links)
func TestNotifyPages(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	links := []string{"--notify-link-key-file=" + file("key", "a key of a test, which has 32 bytes and more\n"), "--notify-link-url=https://shop.example/n"}
	says(t, s.must(t, "user", "import", file("users", `{"user_id":"17","zone":"Europe/Berlin","attributes":{"plan":"pro"}}`+"\n")), "1 line: 1 stored, 0 unchanged")
	says(t, s.must(t, "user", "import", file("users", `{"user_id":"17","zone":"Europe/Berlin"}`+"\n")), "1 line: 0 stored, 1 unchanged")

	s.service(t, append([]string{"work"}, links...)...).ready()
	api := s.service(t, append([]string{"serve", "--http-addr=127.0.0.1:0"}, links...)...).ready()
	reminder := strings.ReplaceAll(urgentNow(uuid.New(), "17", "Your cart waits"), "SECURITY", "REMINDER")
	if p := api.waited(reminder); p.Decisions[0].Outcome != "NOW" {
		t.Fatalf("%+v", p)
	}
	m := s.taken(t, notify.Push)
	if m.Links == nil {
		t.Fatalf("%+v has no links", m)
	}
	address := notifyListening.FindStringSubmatch(api.log.String())[1]
	here := func(link string) string { return address + strings.TrimPrefix(link, "https://shop.example/n") }
	eventually(t, "the page is there", func() error {
		page, err := http.Get(here(m.Links.Preferences))
		if err != nil {
			return err
		}
		defer page.Body.Close()
		if text, err := io.ReadAll(page.Body); err != nil || page.StatusCode != http.StatusOK || !strings.Contains(string(text), "Reminders") {
			return fmt.Errorf("%d %s: %w", page.StatusCode, text, err)
		}
		return nil
	})
	click, err := http.PostForm(here(m.Links.Unsubscribe), url.Values{"List-Unsubscribe": {"One-Click"}})
	must.OK(t, err)
	if click.Body.Close(); click.StatusCode != http.StatusOK {
		t.Errorf("one click: %d", click.StatusCode)
	}
	reminder = strings.NewReplacer("SECURITY", "REMINDER", "push", "email").Replace(urgentNow(uuid.New(), "17", "Your cart still waits"))
	if p := api.waited(reminder); p.Decisions[0].Outcome != "NEVER" {
		t.Errorf("after one click: %+v", p)
	}
	var own json.RawMessage
	status, header := api.call("GET", "/v1/users/17/preferences", "", "", &own)
	if want := `{"zone":"Europe/Berlin","topics":{"reminders":{"channels":{"email":"off"}}},"attributes":{"plan":"pro"}}`; status != 200 || header.Get("Etag") != `"2"` || string(own) != want {
		t.Errorf("%d %s %s, want %s", status, header.Get("Etag"), own, want)
	}
	if strings.Contains(api.log.String(), strings.TrimPrefix(m.Links.Preferences, "https://shop.example/n/preferences?t=")) {
		t.Error("the log has a token")
	}
}

// taken takes one message of the senders of a channel.
func (s *notifyStack) taken(t *testing.T, channel notify.Channel) (m message.Message) {
	t.Helper()
	connection, err := amqp.Dial(s.dsn)
	must.OK(t, err)
	defer connection.Close()
	eventually(t, "a message is dispatched", func() error {
		ch, err := connection.Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		got, ok, err := ch.Get(broker.DispatchQueue(channel), true)
		if err != nil || !ok {
			return errors.Join(err, errors.New("none"))
		}
		return json.Unmarshal(got.Body, &m)
	})
	return m
}
