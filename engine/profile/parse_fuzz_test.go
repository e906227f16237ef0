package profile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"keyfold/engine"

	"pgregory.net/rapid"
)

// Whatever is accepted has the values that encoding/json finds; whatever is
// refused has the fault that the error names. The seeds are in testdata.
//
// Promise(event/malformed, json/refused)
func FuzzParseEvent(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		checkAgainstReference(t, body)
	})
}

// The seeds are to lead the fuzzer to every reason, and to good bodies.
func TestSeedsCoverEveryReason(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "fuzz", "FuzzParseEvent", "*"))
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]int{}
	for _, file := range files {
		_, err := ParseEvent(readSeed(t, file), testNow)
		covered[engine.ReasonOf(err)]++
	}
	for _, reason := range append(reasons(t), engine.ReasonOf(nil)) {
		if covered[reason] == 0 {
			t.Errorf("no seed for %s", reason)
		}
	}
}

// readSeed reads a file of the Go fuzz corpus that has one []byte.
func readSeed(t *testing.T, file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := bytes.CutPrefix(bytes.TrimSpace(text), []byte("go test fuzz v1\n[]byte("))
	if !ok {
		t.Fatalf("%s is no corpus file", file)
	}
	body, err := strconv.Unquote(string(bytes.TrimSuffix(text, []byte(")"))))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return []byte(body)
}

// Values the fields are drawn from. The good ones come first, as many as usual
// says: a body with one odd value is to be as likely as a body with several.
var drawn = map[string]struct {
	usual  int
	values []string
}{
	"user_id": {3, []string{"12345", "1", "2147483647", "2147483648", "0", "-5", "12.0", "1e3", `"1"`, "null", "01", "4294967301"}},
	"event_type": {5, []string{
		`"product_view"`, `"search"`, `"product_click"`, `"product_purchase"`, `"\u0073earch"`, `"Search"`, `"x"`, "1",
	}},
	"search_phrase": {3, []string{`"boots"`, `" \u00fc\/\ud83d\ude00"`, `"\t7"`, "null", `""`, `" "`, `"\u0000"`, `"\ud800"`, "7", `["a"]`}},
	"product_id":    {2, []string{"789", "1", "null", "0", "-1", "2147483648", `"789"`, "7.5"}},
	"occurred_at": {5, []string{
		`"2026-02-10T14:30:00+00:00"`, `"2026-02-10T14:30:00.1239Z"`, `"2026-02-10T09:30:00-0500"`, `"2026-02-10T15:05:00Z"`,
		`"1969-12-31T23:59:59.9999\u005a"`, `"2026-02-10T15:05:00.001Z"`, `"2026-02-10T14:30:00"`, `"2026-02-30T14:30:00Z"`,
		`"yesterday"`, "1770733800",
	}},
	"metadata":   {6, []string{`{"device":"mobile"}`, "null", "{}", `{"a":{"b":[1,{"c":2}]},"b":-1.5e+3}`, "[]", "[ ]", "[0]", `"x"`}},
	"message_id": {3, []string{`"m-1"`, "null", `"\u00e9\n"`, `""`, `"\u0000"`, "5"}},
	"version":    {2, []string{`"1.0"`, `"1\u002e0"`, "null", "1.0", `"2.0"`}},
	"extra":      {5, []string{"1", "[[]]", `{"user_id":1}`, "true", `"\"\\"`}},
	"User_ID":    {1, []string{"1"}},
}

// seldom is true once in ten times. Small numbers are drawn more often.
func seldom(t *rapid.T, what string) bool {
	return rapid.SampledFrom([]bool{9: true}).Draw(t, what)
}

// drawValue draws the JSON of a field.
func drawValue(t *rapid.T, name string) string {
	if name == "metadata" && rapid.Bool().Draw(t, "nested") {
		return `{"m":` + drawJSON(t, rapid.SampledFrom([]int{2, 3, 40}).Draw(t, "depth")) + "}"
	}
	values := drawn[name].values
	if !seldom(t, "odd") {
		values = values[:drawn[name].usual]
	}
	return rapid.SampledFrom(values).Draw(t, name)
}

// drawJSON draws a value at most that deep, with keys that often collide.
func drawJSON(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth <= 0 || kind < 2 {
		return rapid.SampledFrom([]string{"0", "-0.5e-7", `"x"`, `"\u00E9"`, "true", "false", "null", "{}", "[]"}).Draw(t, "leaf")
	}
	var b bytes.Buffer
	for i := range rapid.IntRange(1, 3).Draw(t, "members") {
		if i > 0 {
			b.WriteString(rapid.SampledFrom([]string{",", " ,", ",\n"}).Draw(t, "comma"))
		}
		if kind < 5 {
			b.WriteString(rapid.SampledFrom([]string{`"a":`, `"b":`, `"\u0061" :`, `"c": `, `"d":`, `"":`}).Draw(t, "key"))
		}
		b.WriteString(drawJSON(t, depth-1))
	}
	if kind < 5 {
		return "{" + b.String() + "}"
	}
	return "[" + b.String() + "]"
}

// drawFields draws which fields a body has, in which order.
func drawFields(t *rapid.T) []string {
	names := []string{"user_id", "event_type", "product_id", "search_phrase", "occurred_at"}
	optional := []string{"metadata", "message_id", "version", "extra"}
	names = append(names, rapid.SliceOfDistinct(rapid.SampledFrom(optional), rapid.ID[string]).Draw(t, "optional")...)
	if seldom(t, "one too many") {
		names = append(names, rapid.SampledFrom(append(names, "User_ID")).Draw(t, "too many"))
	}
	names = rapid.Permutation(names).Draw(t, "order")
	if seldom(t, "one too few") {
		names = names[1:]
	}
	return names
}

// drawBody draws a body, usually of fields that go together, and now and then
// with an escaped key or with a few bytes damaged.
func drawBody(t *rapid.T) []byte {
	names := drawFields(t)
	values := map[string]string{}
	for _, name := range names {
		values[name] = drawValue(t, name)
	}
	if !seldom(t, "target") {
		without := rapid.SampledFrom([]string{"null", "null", ""}).Draw(t, "without")
		if strings.HasSuffix(values["event_type"], `earch"`) {
			values["product_id"] = without
		} else {
			values["search_phrase"] = without
		}
	}
	var members []string
	for _, name := range names {
		if values[name] == "" {
			continue
		}
		key := `"` + name + `"`
		if seldom(t, "escape") {
			key = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
		}
		members = append(members, key+rapid.SampledFrom([]string{":", " : "}).Draw(t, "colon")+values[name])
	}
	body := []byte("{" + strings.Join(members, rapid.SampledFrom([]string{",", " ,\n"}).Draw(t, "comma")) + "}")
	if seldom(t, "damaged") {
		body = damage(t, body)
	}
	return body
}

// damage changes, drops or doubles a few bytes.
func damage(t *rapid.T, body []byte) []byte {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range 1 + r.IntN(2) {
		at := r.IntN(len(body))
		const bytesOfJSON = "{}[]:,\"\\ \n09-.eEuntf\x00\x1f\x80\xff\xc3T+Z"
		switch r.IntN(3) {
		case 0:
			body[at] = bytesOfJSON[r.IntN(len(bytesOfJSON))]
		case 1:
			body = append(body[:at], body[at+1:]...)
		default:
			end := at + r.IntN(min(20, len(body)-at))
			body = bytes.Join([][]byte{body[:end], body[at:]}, nil)
		}
		if len(body) == 0 {
			break
		}
	}
	return body
}

// Promise(json/refused)
func TestParseEventAgreesWithReference(t *testing.T) {
	var accepted, refused int
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			if checkAgainstReference(t, drawBody(t)) {
				accepted++
			} else {
				refused++
			}
		}
	})
	// A property over bodies that are all refused, or all accepted, says little.
	if accepted*20 < refused || refused*20 < accepted {
		t.Errorf("%d bodies were accepted, %d refused: the draw is lopsided", accepted, refused)
	}
}

// The tables of the tests agree with the reference, too.
func TestReferenceAgreesWithTables(t *testing.T) {
	for _, tc := range goodBodies {
		checkAgainstReference(t, []byte(tc.body))
	}
	for _, tc := range badBodies {
		if _, found := reference([]byte(tc.body), testNow); !found[tc.reason] {
			t.Errorf("%s: the reference finds %v, not %s", tc.name, found, tc.reason)
		}
	}
}
