package profile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine"

	"pgregory.net/rapid"
)

// checkOutline makes a body again that was read quickly.
func checkOutline(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, body []byte,
) {
	t.Helper()
	e, o, err := ParseEventOutlined(body, testNow, nil)
	if err != nil || o.Outline == nil {
		t.Fatalf("%q has no outline (%v)", body, err)
	}
	if again := Outline(o.Outline).AppendBody(nil, &e, string(o.OccurredAt)); !bytes.Equal(again, body) {
		t.Fatalf("%q has the outline %q and is made again as %q", body, o.Outline, again)
	}
}

// checkQuick compares the quick reading with the strict one: it has the same event or none.
func checkQuick(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, body []byte,
) (read bool) {
	t.Helper()
	now := engine.MillisOf(testNow)
	want, err := parseStrictly(body, now)
	for _, inPlace := range []bool{false, true} {
		q := quick{body: body}
		e, ok := q.event(now, inPlace)
		if ok && (err != nil || e != want) {
			t.Fatalf("%q: read quickly as %+v, strictly as %+v (%v)", body, e, want, err)
		}
		read = ok
	}
	if read {
		checkOutline(t, body)
	}
	return read
}

// What is read quickly is what the strict reading has, and nothing that it refuses. The
// seeds are those of FuzzParseEvent, and bodies as publishers write them.
//
// Promise(json/refused)
func FuzzParseQuickly(f *testing.F) {
	for _, bc := range benchBodies {
		f.Add([]byte(bc.body))
	}
	files, err := filepath.Glob(filepath.Join("testdata", "fuzz", "FuzzParseEvent", "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkQuick(t, body) })
}

// drawUsual draws a body near the common shape: most of them are of it, and some have one
// thing that it does not have.
func drawUsual(t *rapid.T) []byte {
	pick := func(label string, usual int, all ...string) string {
		if !seldom(t, label+" is odd") {
			all = all[:usual]
		}
		return rapid.SampledFrom(all).Draw(t, label)
	}
	kind := pick("type", 4, `"product_view"`, `"search"`, `"product_click"`, `"product_purchase"`, `"sale"`, `"\u0073earch"`)
	phrase, product := pick("phrase", 2, "null", `""`, `"x"`), pick("product", 3, "789", "1", "999999999", "2147483647", "2147483648", "0", "07", "7.0", "1e3", "-1", "null")
	if strings.Contains(kind, "earch") {
		phrase, product = pick("phrase", 4, `"hiking boots"`, `"ботинки 42"`, `"a"`, `"`+strings.Repeat("é", 255)+`"`, `" "`, `"\u00a0"`, "\"\u00a0\"", `"`+strings.Repeat("x", 256)+`"`, "\"\x01\"", "\"\xff\"", `""`), pick("product", 1, "null", "3")
	}
	comma, colon := pick("comma", 2, ",", ", ", ",\n", " ,"), pick("colon", 2, ":", ": ", " :", ":  ")
	metadata := pick("metadata", 6, `{"device":"mobile"}`, "null", "[]", "{}", `{"a":1,"b":-0.5,"c":true,"d":false,"e":null,"f":"ü"}`, `{"price":129.9,"quantity":0}`,
		`{"a":1,"a":2}`, `{"a":{}}`, `{"a":[1]}`, `{"a":1e5}`, `{"a":01}`, `{"a":.5}`, `{"a":5.}`, `{"a":-}`, `{"a":1,}`, `{"a":nul}`, `{"a":nulll}`, `{"\u0061":1}`, "{ }", "[ ]", "[1]", "1", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`)
	members := []string{
		`"user_id"` + colon + pick("user", 2, "12345", "1", "0", "2147483648", "01", "-1", `"1"`, "null"),
		`"event_type"` + colon + kind, `"search_phrase"` + colon + phrase, `"product_id"` + colon + product,
		`"occurred_at"` + colon + pick("time", 3, `"2026-02-10T14:30:00+00:00"`, `"2026-02-10T14:30:00.123Z"`, `"2026-02-10T09:30:00-0500"`,
			`"2026-02-30T14:30:00Z"`, `"2026-02-10T15:05:00.001Z"`, `"0999-12-31T23:59:59Z"`, `"2026-02-10T14:30:00"`, `"2026-02-10T14:30:00\u005a"`),
		`"metadata"` + colon + metadata,
		`"message_id"` + colon + pick("id", 3, `"2f0e7a4c1b9d8e6f5a3c2b1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f"`, `"m-1"`, `"é"`, `""`, "null", `"\u0000"`, `"`+strings.Repeat("é", 128)+`"`, `"`+strings.Repeat("x", 129)+`"`),
		`"version"` + colon + pick("version", 1, `"1.0"`, `"2.0"`, "null", "1.0"),
	}
	members = rapid.Permutation(members).Draw(t, "order")
	if seldom(t, "one too few") {
		members = members[1:]
	}
	if seldom(t, "one too many") {
		members = append(members, rapid.SampledFrom(append(members, `"User_ID":1`, `"extra":1`)).Draw(t, "too many"))
	}
	body := []byte("{" + strings.Join(members, comma) + "}")
	switch rapid.IntRange(0, 9).Draw(t, "what is done to it") {
	case 0:
		body = damage(t, body)
	case 1:
		body = body[:rapid.IntRange(0, len(body)).Draw(t, "cut off at")]
	case 2:
		body = append(body, rapid.SampledFrom([]string{" ", "\n", "}", "x"}).Draw(t, "behind")...)
	}
	return body
}

// Promise(json/refused)
func TestQuickReadingAgreesWithTheStrictOne(t *testing.T) {
	var quickly, not int
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			if checkQuick(t, drawUsual(t)) {
				quickly++
			} else {
				not++
			}
			checkQuick(t, drawBody(t))
		}
	})
	if quickly*20 < not || not*20 < quickly {
		t.Errorf("%d bodies were read quickly, %d not: the draw is lopsided", quickly, not)
	}
}

// Every body that is cut off anywhere, or has one byte changed to another, is read alike.
func TestQuickReadingOfEveryDamage(t *testing.T) {
	for _, bc := range benchBodies {
		body := []byte(bc.body)
		for i := range body {
			checkQuick(t, body[:i])
			for _, b := range []byte("\"\\,:{}[] 0e.-n\x00\x1f\x20\x7f\x80\xff") {
				changed := bytes.Clone(body)
				changed[i] = b
				checkQuick(t, changed)
			}
		}
	}
}

// The shape is that of what keyfold publishes, and of PHP's and Python's writers.
func TestUsualBodiesAreReadQuickly(t *testing.T) {
	usual := []string{benchBodies[0].body, benchBodies[1].body, strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(benchBodies[0].body)}
	for _, body := range usual {
		if !checkQuick(t, []byte(body)) {
			t.Errorf("%s: not read quickly", body)
		}
	}
	_, whole, err := CompleteEvent([]byte(benchBodies[3].body), testNow)
	if err != nil || !checkQuick(t, whole) {
		t.Errorf("%s: not read quickly (%v)", whole, err)
	}
}

func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.ByteRange(0x20, 0x7f), rapid.SampledFrom([]byte("\"\\\x1f\x00\x80\xff!#[]"))), 0, 40).Draw(t, "text")
		want := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r >= 0x80 })
		if want < 0 {
			want = len(b)
		}
		if got := plain(b); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	})
}
