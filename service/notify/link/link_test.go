package link

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/senders/message"
)

const (
	oldKey = "the key from before, which has 32 bytes and more"
	newKey = "the key of this week, which has 32 bytes and more"
	start  = engine.Millis(1_780_000_000_000)
)

func keys(t testing.TB, all ...string) *Keys {
	t.Helper()
	k, err := NewKeys([]byte(strings.Join(all, "\n") + "\n"))
	must.OK(t, err)
	return k
}

// A token is read back by each key that signed it, until its last second has begun.
func TestTokens(t *testing.T) {
	g := Grant{Purpose: Unsubscribe, User: "anna <ü>\U0001F600", Topic: "offers", Channel: notify.Email, Expires: start}
	before, after := keys(t, oldKey), keys(t, newKey, oldKey)
	for name, k := range map[string]*Keys{"the same": before, "after a change": after} {
		if got, err := k.Read(before.Token(g), start-1); err != nil || got != g {
			t.Errorf("%s key: %+v, %v", name, got, err)
		}
		if got, err := k.Read(before.Token(g), start); !errors.Is(err, ErrExpired) || got != g {
			t.Errorf("%s key, at its end: %+v, %v", name, got, err)
		}
	}
	if _, err := before.Read(after.Token(g), start-1); !errors.Is(err, ErrForged) {
		t.Errorf("a key that is not known: %v", err)
	}
	typed := Grant{Purpose: Unsubscribe, User: "1", Type: notify.Promo, Expires: start}
	if got, err := after.Read(after.Token(typed), 0); err != nil || got != typed {
		t.Errorf("%+v, %v", got, err)
	}
	longest := Grant{Purpose: Unsubscribe, User: strings.Repeat("<", notify.MaxUserRunes), Topic: strings.Repeat("x", 64), Channel: notify.InApp, Expires: start}
	for _, user := range []string{longest.User, strings.Repeat("\U0001F600", notify.MaxUserRunes), strings.Repeat("\x01", notify.MaxUserRunes)} {
		longest.User = user
		if got, err := before.Read(before.Token(longest), 0); err != nil || got != longest {
			t.Errorf("%q: %v", user, err)
		}
	}
}

// A token that was changed anywhere is refused, whatever became of it.
//
// Promise(api/pages)
func TestForgedTokens(t *testing.T) {
	k := keys(t, oldKey)
	token := k.Token(Grant{Purpose: Preferences, User: "anna", Expires: start})
	for i := range len(token) {
		for _, sign := range "AB-_=.% " {
			forged := token[:i] + string(sign) + token[i+1:]
			if forged == token {
				continue
			}
			if g, err := k.Read(forged, 0); !errors.Is(err, ErrForged) || g != (Grant{}) {
				t.Fatalf("%s: %+v, %v", forged, g, err)
			}
		}
		if _, err := k.Read(token[:i], 0); !errors.Is(err, ErrForged) {
			t.Fatalf("cut off at %d: %v", i, err)
		}
	}
	for _, forged := range []string{token + "A", token + "AAAA", strings.Repeat("A", 1<<20), "\n" + token, token + "\n"} {
		if _, err := k.Read(forged, 0); !errors.Is(err, ErrForged) {
			t.Errorf("%.20q: %v", forged, err)
		}
	}
}

func TestSettings(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "keys")
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := file(newKey + "\n\n" + oldKey + "\n")
	for _, s := range []Settings{{Days: 60}, {good, "https://shop.example/n/", 1}, {good, "http://127.0.0.1:7080", 3650}} {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for want, s := range map[string]Settings{
		"set both":                    {good, "", 60},
		"is 0: it must be from 1":     {good, "https://shop.example", 0},
		"without a user, a query":     {good, "https://shop.example/?a=b", 60},
		"must be an address":          {good, "shop.example", 60},
		"URL must be an address such": {good, "https://anna:word@shop.example", 60},
		"no such file":                {good + "x", "https://shop.example", 60},
		"in line 1 has 5 bytes":       {file("short"), "https://shop.example", 60},
		"there is no key in it":       {file("\n"), "https://shop.example", 60},
		"it has 3 keys":               {file(newKey + "\n" + newKey + "\n" + newKey), "https://shop.example", 60},
		"is no file of keys":          {t.TempDir(), "https://shop.example", 60},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
	if links, err := (&Settings{Days: 60}).Links(nil); links != nil || err != nil {
		t.Errorf("without settings: %v, %v", links, err)
	}
}

type fixed struct{ set *notify.Set }

func (f fixed) Current() *notify.Set { return f.set }

// A message has the links of its user. What cannot be turned off, and a digest of several
// topics, has none to turn it off.
func TestLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	must.OK(t, os.WriteFile(path, []byte(newKey), 0o600))
	set := &notify.Set{Policy: notify.Policy{Topics: []notify.Topic{{Name: "offers"}, {Name: "orders", Locked: true}}}}
	links, err := (&Settings{path, "https://shop.example/n/", 60}).Links(fixed{set})
	must.OK(t, err)
	record := func(kind notify.EventType, topic string) notify.Record {
		return notify.Record{UserID: "anna", Type: kind, DecidedAt: start, Facts: notify.Facts{Topic: topic}}
	}
	const end = start + 60*24*3600*1000
	offers := Grant{Purpose: Unsubscribe, User: "anna", Topic: "offers", Channel: notify.Email, Expires: end}
	promo := Grant{Purpose: Unsubscribe, User: "anna", Type: notify.Promo, Expires: end}
	for name, c := range map[string]struct {
		records []notify.Record
		want    Grant
	}{
		"a topic":            {[]notify.Record{record(notify.Promo, "offers")}, offers},
		"no topic":           {[]notify.Record{record(notify.Promo, "")}, promo},
		"security":           {[]notify.Record{record(notify.Security, "")}, Grant{}},
		"a locked topic":     {[]notify.Record{record(notify.Update, "orders")}, Grant{}},
		"a digest of one":    {[]notify.Record{record(notify.Promo, "offers"), record(notify.Update, "offers")}, offers},
		"a digest of two":    {[]notify.Record{record(notify.Promo, "offers"), record(notify.Promo, "news")}, Grant{}},
		"a digest of types":  {[]notify.Record{record(notify.Promo, ""), record(notify.Update, "")}, Grant{}},
		"a digest of a type": {[]notify.Record{record(notify.Promo, ""), record(notify.Promo, "")}, promo},
	} {
		d := &notify.Dispatch{ID: uuid.New(), Records: c.records}
		made := links.Links(d)
		token, ok := strings.CutPrefix(made.Preferences, "https://shop.example/n/preferences?t=")
		g, err := links.Read(token, start)
		if !ok || err != nil || g != (Grant{Purpose: Preferences, User: "anna", Expires: end}) {
			t.Errorf("%s: %s is %+v, %v", name, made.Preferences, g, err)
		}
		if *links.Links(d) != *made {
			t.Errorf("%s: a message that is sent again has other links", name)
		}
		if c.want == (Grant{}) {
			if made.Unsubscribe != "" {
				t.Errorf("%s: %s", name, made.Unsubscribe)
			}
			continue
		}
		token, ok = strings.CutPrefix(made.Unsubscribe, "https://shop.example/n/unsubscribe?t=")
		if g, err := links.Read(token, start); !ok || err != nil || g != c.want {
			t.Errorf("%s: %s is %+v, %v", name, made.Unsubscribe, g, err)
		}
	}
}

var _ message.Linker = (*Links)(nil)
