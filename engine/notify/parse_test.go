package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// testNow is 2026-03-10T12:00:00Z.
const testNow = engine.Millis(1773144000000)

// goodMembers are the members of a body that has all.
var goodMembers = [][2]string{
	{"event_id", `"018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f"`},
	{"user_id", `"u-17"`},
	{"event_type", `"UPDATE"`},
	{"title", `"Order 1001 shipped"`},
	{"message", `"It comes on Friday. \u00fc\ud83d\ude00"`},
	{"source", `"orders"`},
	{"priority_hint", `"HIGH"`},
	{"channel", `["push","email"]`},
	{"timestamp", `"2026-03-10T11:59:00.1239Z"`},
	{"expires_at", `"2026-03-11T12:00:00+01:00"`},
	{"dedupe_key", `"order-1001"`},
	{"metadata", `{"order_id":1001,"timezone":"Europe/Berlin","a":{"b":{"c":{"d":{"e":1}}}},"tags":["x"],"gift":true,"note":null}`},
}

// bodyOf writes members, with changes: a value by its name, "" to leave it out.
func bodyOf(changes ...string) string {
	members := slices.Clone(goodMembers)
	for i := 0; i < len(changes); i += 2 {
		at := slices.IndexFunc(members, func(m [2]string) bool { return m[0] == changes[i] })
		if at < 0 {
			members = append(members, [2]string{changes[i], changes[i+1]})
		} else {
			members[at][1] = changes[i+1]
		}
	}
	var texts []string
	for _, m := range members {
		if m[1] != "" {
			texts = append(texts, fmt.Sprintf("%q:%s", m[0], m[1]))
		}
	}
	return "{" + strings.Join(texts, ",") + "}"
}

func TestParseReadsEveryField(t *testing.T) {
	n, err := Parse([]byte(bodyOf()), testNow)
	must.OK(t, err)
	if n.ID.String() != "018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f" || n.UserID != "u-17" || n.Type != Update ||
		n.Title != "Order 1001 shipped" || n.Message != "It comes on Friday. ü😀" || n.Source != "orders" || n.Hint != High ||
		!slices.Equal(n.Channels, []Channel{Push, Email}) || n.Timestamp != testNow-60_000+123 ||
		n.ExpiresAt != testNow+23*3600_000 || n.DedupeKey != "order-1001" {
		t.Errorf("read %+v", n)
	}
	for path, want := range map[string]Kind{
		"order_id": Number, "timezone": String, "a": Object, "a.b.c.d": Object, "a.b.c.d.e": Absent, "tags": Array,
		"gift": Bool, "note": Null, "nothing": Absent,
	} {
		if got := n.Metadata.Get(path); got.Kind != want {
			t.Errorf("metadata.%s is %v, expected %v", path, got, want)
		}
	}
	if v := n.Metadata.Get("order_id"); v.Text != "1001" {
		t.Errorf("order_id is %+v", v)
	}
	if string(n.Body) != bodyOf() {
		t.Errorf("the body became %s", n.Body)
	}
}

func TestParseAccepts(t *testing.T) {
	for name, changes := range map[string][]string{
		"required fields only":   {"event_id", "", "message", "", "priority_hint", "", "expires_at", "", "dedupe_key", "", "metadata", ""},
		"null for what may lack": {"event_id", "null", "message", "null", "priority_hint", "null", "expires_at", "null", "dedupe_key", "null", "metadata", "null"},
		"longest texts": {
			"user_id", long(128), "title", long(120), "message", long(1000), "source", long(64), "dedupe_key", long(256),
		},
		"5 minutes ahead":       {"timestamp", `"2026-03-10T12:05:00Z"`},
		"a millisecond to live": {"timestamp", `"2026-03-10T12:00:00Z"`, "expires_at", `"2026-03-10T12:00:00.001Z"`},
		"other keys":            {"version", `"1.0"`, "x", `{"y":[1,{"z":1e10000}]}`},
		"4 KiB of metadata":     {"metadata", metadataOf(MaxMetadataBytes)},
		"8 levels of metadata":  {"metadata", `{"a":{"a":{"a":{"a":{"a":{"a":[{}]}}}}}}`},
		"a dot in a key":        {"metadata", `{"order.id":1,"order":{"no":2}}`},
		"escaped backslash u":   {"title", `"C:\\u0000"`},
		"large numbers":         {"metadata", `{"a":1e10000,"b":-1E-10000,"c":` + strings.Repeat("9", 1000) + `}`},
		"all channels":          {"channel", ` [ "in_app" , "sms","email","\u0070ush" ] `},
		"white space as a user": {"user_id", `" "`},
	} {
		t.Run(name, func(t *testing.T) {
			if !checkParse(t, []byte(bodyOf(changes...))) {
				_, err := Parse([]byte(bodyOf(changes...)), testNow)
				t.Error(err)
			}
		})
	}
}

// long returns a JSON text of n characters of two bytes.
func long(n int) string { return `"` + strings.Repeat("é", n) + `"` }

// metadataOf returns an object of n bytes.
func metadataOf(n int) string {
	const empty = `{"a":""}`
	return `{"a":"` + strings.Repeat("x", n-len(empty)) + `"}`
}

var badBodies = []struct {
	name, body, field, reason string
}{
	{"nothing", ``, "", engine.ReasonMalformedJSON},
	{"an array", `[1]`, "", engine.ReasonMalformedJSON},
	{"too large", bodyOf("x", `"`+strings.Repeat("x", MaxBodyBytes)+`"`), "", engine.ReasonBodyTooLarge},
	{"not UTF-8", bodyOf("title", "\"\xff\""), "", engine.ReasonInvalidUTF8},
	{"cut off", bodyOf()[:100], "", engine.ReasonMalformedJSON},
	{"two objects", bodyOf() + "{}", "", engine.ReasonTrailingData},
	{"a key twice", bodyOf("x", `1,"\u0078":2`), "", engine.ReasonDuplicateKey},
	{"half a pair", bodyOf("title", `"\ud83d"`), "", engine.ReasonLoneSurrogate},
	{"half a pair in metadata", bodyOf("metadata", `{"\ude00":1}`), "", engine.ReasonLoneSurrogate},
	{"33 levels", bodyOf("x", strings.Repeat("[", 32)+strings.Repeat("]", 32)), "", engine.ReasonTooDeep},
	{"another case", bodyOf("User_ID", `"x"`), "user_id", engine.ReasonWrongKeyCase},
	{"nul in another key", bodyOf(`x`, `1,"\u0000":1`), "", engine.ReasonNulCharacter},
	{"nul in another value", bodyOf("x", `[["\u0000"]]`), "", engine.ReasonNulCharacter},
	{"number in another value", bodyOf("x", `[1e10001]`), "", FaultNumberOutOfRange},
	{"event_id of 32 digits", bodyOf("event_id", `"018f3c2e7d1a7c409b0e5a1f2c3d4e5f"`), "event_id", FaultBadEventID},
	{"event_id in braces", bodyOf("event_id", `"{018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f}"`), "event_id", FaultBadEventID},
	{"event_id zero", bodyOf("event_id", `"00000000-0000-0000-0000-000000000000"`), "event_id", FaultBadEventID},
	{"event_id a number", bodyOf("event_id", `1`), "event_id", engine.ReasonWrongType},
	{"user_id missing", bodyOf("user_id", ``), "user_id", engine.ReasonMissingField},
	{"user_id null", bodyOf("user_id", `null`), "user_id", engine.ReasonWrongType},
	{"user_id a number", bodyOf("user_id", `17`), "user_id", engine.ReasonWrongType},
	{"user_id empty", bodyOf("user_id", `""`), "user_id", FaultEmpty},
	{"user_id of 129", bodyOf("user_id", long(129)), "user_id", FaultTooLong},
	{"user_id with nul", bodyOf("user_id", `"a\u0000"`), "user_id", engine.ReasonNulCharacter},
	{"event_type missing", bodyOf("event_type", ``), "event_type", engine.ReasonMissingField},
	{"event_type in lower case", bodyOf("event_type", `"update"`), "event_type", engine.ReasonUnknownEventType},
	{"event_type empty", bodyOf("event_type", `""`), "event_type", engine.ReasonUnknownEventType},
	{"title missing", bodyOf("title", ``), "title", engine.ReasonMissingField},
	{"title of white space", bodyOf("title", `" \t\u00a0"`), "title", FaultEmpty},
	{"title of 121", bodyOf("title", long(121)), "title", FaultTooLong},
	{"title with nul", bodyOf("title", `"a\\\u0000"`), "title", engine.ReasonNulCharacter},
	{"message of 1001", bodyOf("message", long(1001)), "message", FaultTooLong},
	{"message an object", bodyOf("message", `{}`), "message", engine.ReasonWrongType},
	{"source missing", bodyOf("source", ``), "source", engine.ReasonMissingField},
	{"source empty", bodyOf("source", `""`), "source", FaultEmpty},
	{"source of 65", bodyOf("source", long(65)), "source", FaultTooLong},
	{"priority_hint unknown", bodyOf("priority_hint", `"URGENT"`), "priority_hint", FaultUnknownHint},
	{"priority_hint a number", bodyOf("priority_hint", `1`), "priority_hint", engine.ReasonWrongType},
	{"channel missing", bodyOf("channel", ``), "channel", engine.ReasonMissingField},
	{"channel a string", bodyOf("channel", `"push"`), "channel", engine.ReasonWrongType},
	{"channel empty", bodyOf("channel", `[]`), "channel", FaultEmpty},
	{"channel unknown", bodyOf("channel", `["push","pager"]`), "channel", FaultUnknownChannel},
	{"channel twice", bodyOf("channel", `["push","push"]`), "channel", FaultDuplicateChannel},
	{"channel of numbers", bodyOf("channel", `[1]`), "channel", engine.ReasonWrongType},
	{"channel nested", bodyOf("channel", `[["push"]]`), "channel", engine.ReasonWrongType},
	{"timestamp missing", bodyOf("timestamp", ``), "timestamp", engine.ReasonMissingField},
	{"timestamp a number", bodyOf("timestamp", `1773144000000`), "timestamp", engine.ReasonWrongType},
	{"timestamp without offset", bodyOf("timestamp", `"2026-03-10T12:00:00"`), "timestamp", engine.ReasonTimestampNoOffset},
	{"timestamp of no day", bodyOf("timestamp", `"2026-02-30T12:00:00Z"`), "timestamp", engine.ReasonBadTimestamp},
	{"timestamp before 1000", bodyOf("timestamp", `"0999-12-31T23:59:59Z"`), "timestamp", engine.ReasonBadTimestamp},
	{"timestamp 5 minutes and 1 ms ahead", bodyOf("timestamp", `"2026-03-10T12:05:00.001Z"`), "timestamp", engine.ReasonFutureEvent},
	{"expires_at at timestamp", bodyOf("timestamp", `"2026-03-10T12:00:00Z"`, "expires_at", `"2026-03-10T13:00:00.0009+01:00"`), "expires_at", FaultExpiresTooEarly},
	{"expires_at no time", bodyOf("expires_at", `"tomorrow"`), "expires_at", engine.ReasonBadTimestamp},
	{"dedupe_key of 257", bodyOf("dedupe_key", long(257)), "dedupe_key", FaultTooLong},
	{"dedupe_key a number", bodyOf("dedupe_key", `1`), "dedupe_key", engine.ReasonWrongType},
	{"metadata an array", bodyOf("metadata", `[]`), "metadata", engine.ReasonWrongType},
	{"metadata of 4097 bytes", bodyOf("metadata", metadataOf(MaxMetadataBytes+1)), "metadata", FaultMetadataTooLarge},
	{"metadata of 9 levels", bodyOf("metadata", `{"a":{"a":{"a":{"a":{"a":{"a":[[{}]]}}}}}}`), "metadata", FaultMetadataTooDeep},
	{"metadata with nul in a key", bodyOf("metadata", `{"a":{"b\u0000":1}}`), "metadata", engine.ReasonNulCharacter},
	{"metadata with nul", bodyOf("metadata", `{"a":[{"b":"\u0000"}]}`), "metadata", engine.ReasonNulCharacter},
	{"metadata with a large number", bodyOf("metadata", `{"a":[1e99999999999999999999]}`), "metadata", FaultNumberOutOfRange},
	{"metadata with a small number", bodyOf("metadata", `{"a":1e-10001}`), "metadata", FaultNumberOutOfRange},
	{"metadata with a long number", bodyOf("metadata", `{"a":`+strings.Repeat("1", 1001)+`}`), "metadata", FaultNumberOutOfRange},
	{"metadata with two of a path", bodyOf("metadata", `{"a.b":1,"a":{"b":2}}`), "metadata", FaultAmbiguousPath},
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range badBodies {
		t.Run(tc.name, func(t *testing.T) {
			if checkParse(t, []byte(tc.body)) {
				t.Fatal("accepted")
			}
			_, err := Parse([]byte(tc.body), testNow)
			faults := FaultsOf(err)
			if len(faults) != 1 || faults[0].Field != tc.field || faults[0].Reason != tc.reason {
				t.Errorf("found %+v", faults)
			}
		})
	}
}

func TestParseNamesTenFaultsAtOnce(t *testing.T) {
	body := bodyOf("event_id", `"x"`, "user_id", "", "event_type", `"NEWS"`, "title", `""`, "message", long(1001), "source", "7",
		"priority_hint", `"high"`, "channel", `["pager"]`, "timestamp", `"2026-03-10"`, "metadata", `{"a":"\u0000"}`)
	checkParse(t, []byte(body))
	_, err := Parse([]byte(body), testNow)
	var fields []string
	for _, f := range FaultsOf(err) {
		fields = append(fields, f.Field)
	}
	slices.Sort(fields)
	want := []string{"channel", "event_id", "event_type", "message", "metadata", "priority_hint", "source", "timestamp", "title", "user_id"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults of %v: %v", fields, err)
	}
}

// A hostile body must not make an error of its own size.
func TestFaultsAreBounded(t *testing.T) {
	var members []string
	for i := range 2000 {
		members = append(members, fmt.Sprintf(`"k%d":"\u0000"`, i))
	}
	body := `{"channel":[` + strings.Repeat(`"x",`, 2000) + `"x"],` + strings.Join(members, ",") + `}`
	_, err := Parse([]byte(body), testNow)
	if faults := FaultsOf(err); len(faults) > 20 || len(err.Error()) > 4000 {
		t.Errorf("%d faults, %d bytes", len(faults), len(err.Error()))
	}
}

func TestEventIDIsMadeFromTheValues(t *testing.T) {
	without := []string{"event_id", ""}
	first, err := Parse([]byte(bodyOf(without...)), testNow)
	must.OK(t, err)
	if first.ID.Version() != 8 || first.ID.Variant() != uuid.RFC4122 {
		t.Errorf("%s is no UUID of version 8", first.ID)
	}
	if !bytes.HasSuffix(first.Body, []byte(`,"event_id":"`+first.ID.String()+`"}`)) || !json.Valid(first.Body) {
		t.Errorf("the body is %s", first.Body)
	}
	same := []string{
		bodyOf("event_id", "null"),
		" " + strings.ReplaceAll(bodyOf(without...), `",`, "\" ,\n"),
		bodyOf("event_id", "", "title", `"Order 100\u0031 shipped"`, "timestamp", `"2026-03-10T12:59:00.123+01:00"`),
		bodyOf("event_id", "", "metadata", ` {"note":null,"gift":true, "timezone":"Europe/Berlin","a":{"b":{"c":{"d":{"e":1}}}},"t\u0061gs":["x"],"order_id":1001}`),
		bodyOf("event_id", "", "another", "1"),
	}
	for _, body := range same {
		n, err := Parse([]byte(body), testNow)
		if err != nil || n.ID != first.ID {
			t.Errorf("%s\nis another event: %v", body, err)
		}
	}
	met := map[uuid.UUID]string{first.ID: ""}
	for _, change := range [][2]string{
		{"user_id", `"u-18"`},
		{"event_type", `"PROMO"`},
		{"title", `"x"`},
		{"message", `""`},
		{"source", `"x"`},
		{"priority_hint", ""},
		{"channel", `["email","push"]`},
		{"timestamp", `"2026-03-10T11:59:00.124Z"`},
		{"expires_at", ""},
		{"dedupe_key", ""},
		{"metadata", ""},
		{"metadata", `{"a":12345678901234567890}`},
		{"metadata", `{"a":12345678901234567891}`},
	} {
		n, err := Parse([]byte(bodyOf("event_id", "", change[0], change[1])), testNow)
		must.OK(t, err)
		if before, there := met[n.ID]; there {
			t.Errorf("%v gives the id of %q", change, before)
		}
		met[n.ID] = change[0]
	}
}

func TestNotificationDoesNotAliasTheBody(t *testing.T) {
	body := []byte(bodyOf())
	n, err := Parse(body, testNow)
	must.OK(t, err)
	for i := range body {
		body[i] = 'x'
	}
	if n.UserID != "u-17" || string(n.Body) != bodyOf() || n.Metadata.Get("timezone").Text != "Europe/Berlin" {
		t.Errorf("it became %+v", n)
	}
}

// hostile are values that fields may meet.
var hostile = []string{
	`null`, `true`, `-0`, `1e10001`, `1E-99999999999`, `""`, `" "`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`, `"\\u0000"`, `[]`, `{}`,
	`[[["push"]]]`, `["push","push"]`, `["push",null]`, `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}`, `{"a.b":1,"a":{"b":1}}`,
	`"2026-03-10T12:00:00"`, `"2026-03-10T12:05:00.001Z"`, `"9999-12-31T23:59:59.999Z"`, `"0001-01-01T00:00:00Z"`, `"PROMO"`, `"LOW"`,
	`"00000000-0000-0000-0000-000000000000"`, `"urn:uuid:018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f"`, long(64), long(65), long(129), long(1001),
	metadataOf(4097), `{"x":1,"x":2}`, `"` + "\xed\xa0\x80" + `"`, `"` + "\x00" + `"`, `'push'`, `NaN`, `01`, `[1,]`,
	strings.Repeat("[", 40) + strings.Repeat("]", 40), `"` + strings.Repeat("x", 70_000) + `"`,
}

// mutate makes a hostile body of a good one.
func mutate(r *rand.Rand) []byte {
	var changes []string
	for range 1 + r.IntN(4) {
		name := goodMembers[r.IntN(len(goodMembers))][0]
		switch r.IntN(8) {
		case 0:
			changes = append(changes, name, "")
		case 1:
			changes = append(changes, strings.ToUpper(name), hostile[r.IntN(len(hostile))])
		case 2:
			changes = append(changes, fmt.Sprintf("k%d", r.IntN(3)), hostile[r.IntN(len(hostile))])
		default:
			changes = append(changes, name, hostile[r.IntN(len(hostile))])
		}
	}
	body := []byte(bodyOf(changes...))
	if r.IntN(4) > 0 {
		return body
	}
	for range 1 + r.IntN(3) {
		at := r.IntN(len(body))
		switch damage := "{}[]:,\"\\ \n09-.eEunt\x00\x1f\x80\xff"; r.IntN(4) {
		case 0:
			body[at] = damage[r.IntN(len(damage))]
		case 1:
			body = slices.Delete(body, at, at+1)
		case 2:
			body = body[:max(1, at)]
		default:
			end := min(len(body), at+r.IntN(30))
			body = slices.Insert(body, at, slices.Clone(body[at:end])...)
		}
		if len(body) == 0 {
			return body
		}
	}
	return body
}

func TestHostileBodies(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	refused := 0
	for range 2000 {
		if !checkParse(t, mutate(r)) {
			refused++
		}
	}
	if refused < 1500 || refused == 2000 {
		t.Errorf("%d of 2000 were refused: the mutations are lopsided", refused)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(bodyOf()))
	for _, tc := range badBodies {
		f.Add([]byte(tc.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkParse(t, body) })
}

// A body of the greatest size that has no event_id is kept with one. What is kept can
// be read.
func TestAStoredBodyOfTheGreatestSizeIsRead(t *testing.T) {
	const frame = `{"user_id":"17","event_type":"UPDATE","title":"x","source":"test","channel":["push"],"timestamp":"2026-03-30T12:00:00Z","more":%q}`
	n, err := Parse(fmt.Appendf(nil, frame, strings.Repeat("x", MaxBodyBytes-len(frame))), 1_774_872_000_000)
	must.OK(t, err)
	if len(n.Body) <= MaxBodyBytes {
		t.Fatalf("the body that is kept has %d bytes", len(n.Body))
	}
	if again, err := ParseStored(n.Body); err != nil || again.ID != n.ID || !bytes.Equal(again.Body, n.Body) {
		t.Errorf("found %v", err)
	}
}
