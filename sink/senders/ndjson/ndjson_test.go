package ndjson_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"

	"keyfold/sink/senders/message"
	"keyfold/sink/senders/ndjson"
)

func dispatch(title string) notify.Dispatch {
	id := uuid.NewSHA1(uuid.Nil, []byte(title))
	return notify.Dispatch{
		ID:      id,
		Records: []notify.Record{{EventID: id, UserID: "17", Outcome: notify.Now, Reasons: []string{"R"}, Channels: []notify.Channel{notify.Email, notify.Push}, DecidedAt: 1000}},
		Events:  []*notify.Notification{{ID: id, Type: notify.Update, Title: title, Message: "a\nb", Body: []byte(`{"metadata":{"order":1}}`)}},
	}
}

func lines(t *testing.T, path string) (all []message.Message) {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	for line := range bytes.Lines(text) {
		var m message.Message
		if err := json.Unmarshal(line, &m); err != nil || line[len(line)-1] != '\n' {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

func TestEachDispatchIsALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.ndjson")
	f, err := ndjson.Open(path)
	must.OK(t, err)
	first := dispatch("one")
	for _, err := range f.Send(t.Context(), []notify.Dispatch{first, {}, dispatch("two")}) {
		if err != nil && !strings.Contains(err.Error(), "0 records") {
			t.Error(err)
		}
	}
	must.OK(t, f.Close())
	if f, err = ndjson.Open(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Send(t.Context(), []notify.Dispatch{dispatch("three")})
	got := lines(t, path)
	if len(got) != 3 || got[0].DispatchID != first.ID || got[2].Title != "three" || string(got[0].Metadata) != `{"order":1}` ||
		got[0].Channels[0] != "email" || got[0].Digest != nil {
		t.Errorf("%+v", got)
	}
}

// A line without its end, which a crash has left, is cut off, however long it is.
func TestATornLineIsRepaired(t *testing.T) {
	for _, torn := range []string{"", "{", `{"version":"1.0","title":"x`, message.Begin + strings.Repeat("x", 200<<10)} {
		path := filepath.Join(t.TempDir(), "out.ndjson")
		f, err := ndjson.Open(path)
		must.OK(t, err)
		f.Send(t.Context(), []notify.Dispatch{dispatch("one")})
		f.Close()
		whole, _ := os.ReadFile(path)
		must.OK(t, os.WriteFile(path, append(whole, torn...), 0o600))
		if f, err = ndjson.Open(path); err != nil {
			t.Fatal(err)
		}
		f.Send(t.Context(), []notify.Dispatch{dispatch("two")})
		f.Close()
		if got := lines(t, path); len(got) != 2 || got[1].Title != "two" {
			t.Errorf("after %d torn bytes: %+v", len(torn), got)
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	if _, err := ndjson.Open(t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
	foreign := filepath.Join(t.TempDir(), "notes.txt")
	must.OK(t, os.WriteFile(foreign, []byte("one\n{\"no\":\"message"), 0o600))
	if _, err := ndjson.Open(foreign); err == nil || !strings.Contains(err.Error(), "name another file") {
		t.Errorf("a file of another program: %v", err)
	}
	if text, _ := os.ReadFile(foreign); !strings.HasSuffix(string(text), "message") {
		t.Errorf("it was cut: %q", text)
	}
	if _, err := ndjson.Open(os.DevNull); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("/dev/null: %v", err)
	}
}

// Of a digest, senders get one message with all items.
func TestDigest(t *testing.T) {
	a, b := dispatch("one"), dispatch("two")
	digest := notify.Dispatch{ID: uuid.New(), Records: append(a.Records, b.Records...), Events: append(a.Events, b.Events...)}
	for i := range digest.Records {
		digest.Records[i].DigestID, digest.Records[i].DigestKey = digest.ID, "PROMO"
	}
	digest.Events[0].ExpiresAt, digest.Events[1].ExpiresAt = 4000, 5000
	m, err := message.Of(&digest, nil)
	must.OK(t, err)
	if m.DispatchID != digest.ID || m.Digest == nil || m.Digest.Key != "PROMO" || len(m.Digest.Items) != 2 || m.Digest.Items[1].Title != "two" ||
		len(m.EventIDs) != 2 || m.EventType != "DIGEST" || m.ExpiresAt == nil || *m.ExpiresAt != "1970-01-01T00:00:05.000Z" || len(m.Channels) != 2 {
		t.Errorf("%+v", m)
	}
}
