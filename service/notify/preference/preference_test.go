package preference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

func text(t testing.TB, own notify.Preferences) string {
	t.Helper()
	b, err := json.Marshal(own)
	must.OK(t, err)
	return string(b)
}

// All members are read, and written as they were read.
func TestParse(t *testing.T) {
	const all = `{"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00"}],"muted":["PROMO"],"channels":["push"],"caps":[2,4,10],` +
		`"topics":{"news":{"snoozed_until":"2026-02-10T14:30:00.000Z"},"offers":{"channels":{"email":"digest","push":"off"},"muted_until":"2026-02-10T14:30:00.000Z"}},` +
		`"digests":["08:00","18:00"],"attributes":{"plan":"pro"},"paused":true,"muted_until":"2026-02-10T14:30:00.000Z","snoozed_until":"2026-02-10T14:30:00.000Z"}`
	own, members, err := Parse([]byte(all))
	if must.OK(t, err); len(members) != len(fields) {
		t.Errorf("%d members", len(members))
	}
	if got := text(t, own); got != all {
		t.Errorf("read and written:\n%s\nwant\n%s", got, all)
	}
	for given, want := range map[string]string{
		`{"digests":["18:00","08:00"]}`: `{"digests":["08:00","18:00"]}`,
		`{"topics":{"a":{},"b":null}}`:  `{}`,
		`{"topics":{"a":{"channels":{"push":null,"sms":"on"}}},"paused":null,"zone":null,"caps":null,"digests":[]}`: `{"topics":{"a":{"channels":{"sms":"on"}}}}`,
	} {
		own, _, err := Parse([]byte(given))
		if must.OK(t, err); text(t, own) != want {
			t.Errorf("%s is %s, want %s", given, text(t, own), want)
		}
	}
}

// All faults are named at once, with the field and what is expected.
func TestFaults(t *testing.T) {
	for given, want := range map[string][]string{
		`null`:            {"it must be a JSON object, found null"},
		`{"zone":5}`:      {`zone: found 5, expected a string`},
		`{} x`:            {"something follows"},
		`{"paused":"no"}`: {`paused: found "no", expected true or false`},
		`{"pausd":true,"muted_until":"soon","snoozed_until":5,"zone":"Mars/X"}`: {
			"pausd: no such field; the fields are zone, quiet", `zone: "Mars/X" is no time zone`,
			`muted_until: found "soon", expected an instant such as 2026`, "snoozed_until: found 5, expected an instant",
		},
		`{"muted_until":"1969-12-31T23:00:00Z"}`:         {"muted_until: found"},
		`{"digests":["24:00","08:00","08:00","8:00",1]}`: {`digests: found ["24:00"`},
		`{"digests":["24:00","08:00","08:00","8:00"]}`: {
			`digests: found "24:00", expected a time before it: write "00:00"`, "digests: 08:00 is there twice", `digests: "8:00" is no time of day`,
		},
		`{"digests":[` + strings.Repeat(`"08:00",`, 24) + `"09:00"]}`: {"digests: found 25 times, expected at most 24"},
		`{"topics":[]}`:                 {"topics: found [], expected an object"},
		`{"topics":{"Offers":{},"":5}}`: {`topics: found a topic named ""`, `topics: found a topic named "Offers", expected 1 to 64 of the characters a-z`},
		`{"topics":{"a":{"channels":{"push":"of","fax":"on","sms":""},"muted":1,"muted_until":"x"},"b":7}}`: {
			"topics: a: muted: no such field", `topics: a: muted_until: found "x"`, `topics: a: channels: found "fax"`,
			`topics: a: push: found "of", expected one of on, off, digest`, `topics: a: sms: found "", expected`, "topics: b: found 7",
		},
		`{"attributes":[1]}`:  {"attributes: found [1], expected an object"},
		`{"caps":[1,2]}`:      {"caps: found [1,2], expected a list of three integers"},
		`{"caps":[-1,2,999]}`: {"caps: entry 1 is -1", "caps: entry 3 is 999"},
		`{"attributes":{"a":"` + strings.Repeat("x", notify.MaxAttributesBytes) + `"}}`: {"attributes: found 2056 bytes, expected at most 2048"},
		`{"muted":["SECURITY",null]}`:                                                               {"muted: found an entry without a name", "muted: SECURITY cannot be muted"},
		`{"quiet":[{"from":"00:00","to":"24:00"}]}`:                                                 {"quiet: quiet hours take the whole week"},
		`{"topics":{` + strings.Repeat(`"x":1,`, 0) + many(notify.MaxTopics+1) + `}}`:               {"topics: found 65 topics, expected at most 64"},
		`{"quiet":[{"from":"25:00","to":"07:00","days":["mo"]}],"muted":["PROM"],"channels":["f"]}`: {`quiet: span 1: "days"`, "muted: found", "channels: found"},
	} {
		_, _, err := Parse([]byte(given))
		faults, _ := errors.AsType[Faults](err)
		for _, w := range want {
			if !slices.ContainsFunc(faults, func(f Fault) bool {
				return strings.Contains(f.Text, w) && (f.Field == "" || strings.HasPrefix(f.Text, f.Field+":"))
			}) {
				t.Errorf("%.200s:\n got %q\nwant %s", given, faults, w)
			}
		}
		if len(faults) < len(want) {
			t.Errorf("%.200s: %d faults, want %d", given, len(faults), len(want))
		}
	}
}

func many(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"t%d":{}`, i)
	}
	return strings.Join(names, ",")
}

// The examples of RFC 7396, appendix A, whose target and patch are objects.
func TestMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got, err := merge(json.RawMessage(c[0]), json.RawMessage(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s and %s are %s, %v, want %s", c[0], c[1], got, err, c[2])
		}
	}
}

// A patch changes what it names, and its result is judged.
func TestPatch(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	patch := func(given string) (ledger.Preferences, error) {
		change, err := Patch([]byte(given))
		if err != nil {
			return ledger.Preferences{}, err
		}
		return Change(ctx, store, "a", ledger.AnyVersion, change)
	}
	for i, c := range [][2]string{
		{`{"topics":{"offers":{"channels":{"push":"off","email":"digest"}}},"attributes":{"plan":"pro","n":1.50}}`, `{"topics":{"offers":{"channels":{"email":"digest","push":"off"}}},"attributes":{"n":1.50,"plan":"pro"}}`},
		{`{"topics":{"offers":{"channels":{"push":null}}},"paused":true}`, `{"topics":{"offers":{"channels":{"email":"digest"}}},"attributes":{"n":1.50,"plan":"pro"},"paused":true}`},
		{`{"paused":false,"attributes":{"plan":null},"topics":null}`, `{"attributes":{"n":1.50}}`},
		{`{"attributes":null}`, `{}`},
	} {
		p, err := patch(c[0])
		if must.OK(t, err); p.Version != int64(i+1) || text(t, p.Own) != c[1] {
			t.Errorf("%s: version %d: %s, want %s", c[0], p.Version, text(t, p.Own), c[1])
		}
	}
	for _, given := range []string{`[]`, `5`, ``, `{"zonne":null}`, `{"zone":5}`, `{"topics":{"offers":{"channels":{"push":"maybe"}}}}`} {
		if _, err := patch(given); !isFaults(err) {
			t.Errorf("%s: %v", given, err)
		}
	}
	if p, err := patch(`{}`); err != nil || p.Version != 4 {
		t.Errorf("a change of nothing: %+v, %v", p, err)
	}
}

func isFaults(err error) bool { _, ok := errors.AsType[Faults](err); return ok }

// Changes at once are all made; a change of one version is made of it alone.
//
// Promise(api/preferences-version)
func TestChange(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := Change(ctx, store, "a", ledger.AnyVersion, func(own notify.Preferences) (notify.Preferences, error) {
				own.Caps[0]++
				return own, nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := store.Preferences(ctx, "a")
	if must.OK(t, err); got.Own.Caps[0] != 50 || got.Version != 50 {
		t.Errorf("%+v", got)
	}
	pause := func(own notify.Preferences) (notify.Preferences, error) { own.Paused = true; return own, nil }
	if _, err := Change(ctx, store, "a", 49, pause); !isVersion(err, 50) {
		t.Errorf("of a former version: %v", err)
	}
	if p, err := Change(ctx, store, "a", 50, pause); err != nil || p.Version != 51 {
		t.Errorf("%+v, %v", p, err)
	}
	must.OK(t, store.Forget(ctx, "a", 1))
	if _, err := Change(ctx, store, "a", ledger.AnyVersion, pause); engine.ReasonOf(err) != ledger.ReasonUserErased {
		t.Errorf("of an erased user: %v", err)
	}
}

func isVersion(err error, present int64) bool {
	v, ok := errors.AsType[*ledger.VersionError](err)
	return ok && v.Present == present
}

// An import goes on after lines at fault, names all their faults, and changes nothing a
// second time. Attributes that a line does not name stay.
//
// Promise(notify/import): An import of preferences names each line at fault with all its faults, stores the others, and
// changes nothing a second time.
func TestImport(t *testing.T) {
	store := memory.New()
	old, _, err := Parse([]byte(`{"attributes":{"plan":"pro"}}`))
	must.OK(t, err)
	must.OK(t, errors.Join(store.SetPreferences(t.Context(), "b", old), store.Forget(t.Context(), "gone", 1)))
	const lines = `{"user_id":"a","zone":"Europe/Berlin"}
{"user_id":"b","paused":true}

{"user_id":"","zonne":1}
{"paused":true
{"paused":true}
{"user_id":"a","zone":"UTC"}
{"user_id":"gone","paused":true}
`
	run := func(dry bool) (done Imported, faults []string) {
		path := filepath.Join(t.TempDir(), "users.ndjson")
		must.OK(t, os.WriteFile(path, []byte(lines), 0o600))
		in, err := cli.OpenInput(path, nil)
		must.OK(t, err)
		defer in.Close()
		i := Import{Store: store, DryRun: dry, Refuse: func(line int64, all Faults) {
			for _, f := range all {
				faults = append(faults, fmt.Sprintf("%d: %s", line, f.Text))
			}
		}}
		done, err = i.Run(t.Context(), in)
		must.OK(t, err)
		return done, faults
	}
	if done, _ := run(true); done != (Imported{Lines: 7, Stored: 3, Erased: 1, Refused: 3}) {
		t.Errorf("a dry run: %+v", done)
	}
	if got, _ := store.Preferences(t.Context(), "a"); got.Version != 0 {
		t.Errorf("a dry run stored %+v", got)
	}
	done, faults := run(false)
	if done != (Imported{Lines: 7, Stored: 3, Erased: 1, Refused: 3}) {
		t.Errorf("%+v", done)
	}
	for i, want := range []string{"4: zonne: no such field", "4: user_id: it must be a string", "5: it must be a JSON object", "6: user_id: missing"} {
		if len(faults) != 4 || !strings.HasPrefix(faults[i], want) {
			t.Errorf("faults %q, want %s", faults, want)
		}
	}
	for user, want := range map[string]string{"a": `{"zone":"UTC"}`, "b": `{"attributes":{"plan":"pro"},"paused":true}`, "gone": `{}`} {
		got, err := store.Preferences(t.Context(), user)
		if must.OK(t, err); text(t, got.Own) != want {
			t.Errorf("%s: %s, want %s", user, text(t, got.Own), want)
		}
	}
	if done, _ := run(false); done.Stored != 2 || done.Unchanged != 1 { // of a, whose lines differ
		t.Errorf("again: %+v", done)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	in, err := cli.OpenInput("-", strings.NewReader(lines))
	must.OK(t, err)
	if _, err := (&Import{Store: store, Refuse: func(int64, Faults) {}}).Run(ended, in); err == nil {
		t.Error("an interrupted import is none")
	}
}
