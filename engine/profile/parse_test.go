package profile

import (
	"crypto/sha256"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
)

// testNow is the time at which test bodies are read.
var testNow = time.Date(2026, 2, 10, 15, 0, 0, 0, time.UTC)

// message returns a body: a good product_view with the given fields (name and
// JSON value in turn) replaced, added or, where the value is "", left out.
func message(fields ...string) string {
	all := []string{
		"user_id", "12345", "event_type", `"product_view"`, "search_phrase", "null", "product_id", "789",
		"occurred_at", `"2026-02-10T14:30:00+00:00"`, "metadata", `{"device":"mobile"}`,
		"message_id", `"m-1"`, "version", `"1.0"`,
	}
	for i := 0; i < len(fields); i += 2 {
		at := 0
		for at < len(all) && all[at] != fields[i] {
			at += 2
		}
		if at == len(all) {
			all = append(all, "", "")
		}
		all[at], all[at+1] = fields[i], fields[i+1]
	}
	var members []string
	for i := 0; i < len(all); i += 2 {
		if all[i+1] != "" {
			members = append(members, `"`+all[i]+`":`+all[i+1])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// search returns the body of a good search with fields as for message.
func search(fields ...string) string {
	base := []string{"event_type", `"search"`, "search_phrase", `"boots"`, "product_id", ""}
	return message(append(base, fields...)...)
}

// nest returns a value of that depth.
func nest(depth int, open, inner, closing string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
}

// object returns an object of n keys, which are numbers in base 36, and more
// members after them.
func object(n int, more string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"` + strconv.FormatInt(int64(i), 36) + `":1,`)
	}
	return "{" + b.String() + more + "}"
}

// Good bodies, and how the event differs from the one of message().
var goodBodies = []struct {
	name, body string
	want       func(*Event)
}{
	{"product view", message(), func(*Event) {}},
	{"product click", message("event_type", `"product_click"`), func(e *Event) { e.Type = ProductClick }},
	{"product purchase", message("event_type", `"product_purchase"`), func(e *Event) { e.Type = ProductPurchase }},
	{"search", search(), func(e *Event) { asSearch(e, "boots") }},
	{"search with null product", search("product_id", "null"), func(e *Event) { asSearch(e, "boots") }},

	{"smallest ids", message("user_id", "1", "product_id", "1"), func(e *Event) { e.UserID, e.ProductID = 1, 1 }},
	{
		"largest ids", message("user_id", "2147483647", "product_id", "2147483647"),
		func(e *Event) { e.UserID, e.ProductID = 2147483647, 2147483647 },
	},

	{"phrase kept as sent", search("search_phrase", `"  Red\tBoots "`), func(e *Event) { asSearch(e, "  Red\tBoots ") }},
	{
		"phrase escaped", search("search_phrase", `"\u0431\u043E\"\\\/\b\f\n\r\t\uD83D\ude00!"`),
		func(e *Event) { asSearch(e, "бо\"\\/\b\f\n\r\t😀!") },
	},
	{
		"phrase of 255 characters", search("search_phrase", `"`+strings.Repeat("ы", 255)+`"`),
		func(e *Event) { asSearch(e, strings.Repeat("ы", 255)) },
	},
	{"empty phrase with a product", message("search_phrase", `""`), func(*Event) {}},
	{"no phrase with a product", message("search_phrase", ""), func(*Event) {}},

	{
		"message id of 128 characters", message("message_id", `"`+strings.Repeat("é", 128)+`"`),
		func(e *Event) { e.MessageID = strings.Repeat("é", 128) },
	},
	{"message id escaped", message("message_id", `"a\u002fb"`), func(e *Event) { e.MessageID = "a/b" }},
	{
		"message id made", message("message_id", ""),
		func(e *Event) { e.MessageID = "daa102ff81d1fd573c3b94230588385cc52862ae1ad4eaff12973113365c4021" },
	},
	{
		"message id null", message("message_id", "null"),
		func(e *Event) { e.MessageID = "daa102ff81d1fd573c3b94230588385cc52862ae1ad4eaff12973113365c4021" },
	},

	{"metadata null", message("metadata", "null"), func(*Event) {}},
	{"metadata absent", message("metadata", ""), func(*Event) {}},
	{"metadata empty", message("metadata", "{ }"), func(*Event) {}},
	{
		"metadata of all kinds", message("metadata",
			`{"a":[],"b":[1,-0,0.5,-12.5E+10,1e-3],"c":[true,false,null],"d":{"a":{"a":""}},"e":[[],[{}],{"a":[]}],"":"\u0000"}`),
		func(*Event) {},
	},
	{"metadata with equal keys in different objects", message("metadata",
		`{"a":{"b":1,"c":1},"b":{"b":1,"c":1},"c":[{"b":1},{"b":1}]}`), func(*Event) {}},
	{"metadata keys in other cases", message("metadata", `{"a":1,"A":1,"User_ID":2}`), func(*Event) {}},
	{"thousands of keys", message("metadata", object(8000, `"":1`)), func(*Event) {}},
	{"many keys twice in different objects", message("metadata", object(20, `"_x":`+object(40, `"_x":1`)+`,"_y":`+object(40, `"_x":1`))), func(*Event) {}},
	{"version absent", message("version", ""), func(*Event) {}},
	{"version escaped", message("version", `"1\u002e0"`), func(*Event) {}},

	{"unknown keys", message("tenant", `{"id":[1]}`, "userid", "0", "", "1", "user_id2", "null"), func(*Event) {}},
	{"escaped key", strings.Replace(message(), `"user_id"`, `"\u0075ser\u005fid"`, 1), func(*Event) {}},
	{
		"white space", " \t\r\n" + strings.NewReplacer(":", " :\n", ",", "\t,\r ", "{", "{ ", "}", " }").Replace(
			message("occurred_at", "")[:len(message("occurred_at", ""))-1]) + `, "occurred_at" : "2026-02-10T14:30:00Z" }` + "\n \r\t",
		func(*Event) {},
	},
	{"deepest", message("metadata", nest(engine.MaxDepth-1, `{"a":`, "1", "}")), func(*Event) {}},
	{"deepest arrays", message("x", nest(engine.MaxDepth-1, "[", "", "]")), func(*Event) {}},
	{"largest", message() + strings.Repeat(" ", MaxBodyBytes-len(message())), func(*Event) {}},

	{"five minutes ahead", message("occurred_at", `"2026-02-10T15:05:00.000Z"`), at("2026-02-10T15:05:00Z")},
	{"less than a millisecond too far ahead", message("occurred_at", `"2026-02-10T15:05:00.0009Z"`), at("2026-02-10T15:05:00Z")},
	{"offset in the extended format", message("occurred_at", `"2026-02-10T20:00:00.1239+05:30"`), at("2026-02-10T14:30:00.123Z")},
	{"offset in the basic format", message("occurred_at", `"2026-02-10T09:30:00-0500"`), at("2026-02-10T14:30:00Z")},
	{"timestamp escaped", message("occurred_at", `"2026-02-10T14\u003a30:00\u005A"`), func(*Event) {}},
}

func asSearch(e *Event, phrase string) { e.Type, e.ProductID, e.Phrase = Search, 0, phrase }

func at(rfc3339 string) func(*Event) {
	t, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		panic(err)
	}
	return func(e *Event) { e.OccurredAt = engine.Millis(t.UnixMilli()) }
}

func TestParseEventAccepts(t *testing.T) {
	for _, tc := range goodBodies {
		t.Run(tc.name, func(t *testing.T) {
			want := Event{UserID: 12345, ProductID: 789, Type: ProductView, OccurredAt: 1770733800000, MessageID: "m-1"}
			tc.want(&want)
			sum := sha256.Sum256([]byte(want.MessageID))
			copy(want.Digest[:], sum[:])
			got, err := ParseEvent([]byte(tc.body), testNow)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// A worker parses each message of its life: three allocations, of which one is
// the message id and one the phrase. The least of many runs counts, because
// under the race detector a sync.Pool drops readers at random.
//
// Promise(event/json-bombs)
func TestParseEventAllocatesLittle(t *testing.T) {
	for _, tc := range benchBodies[:2] {
		body := []byte(tc.body)
		got := math.Inf(1)
		for range 100 {
			got = min(got, testing.AllocsPerRun(1, func() { _, _ = ParseEvent(body, testNow) }))
		}
		if got > 3 {
			t.Errorf("%s: %v allocations, want at most 3", tc.name, got)
		}
	}
}

// Sources reuse their buffers.
func TestEventDoesNotAliasItsBody(t *testing.T) {
	for _, tc := range goodBodies {
		body := []byte(tc.body)
		got, err := ParseEvent(body, testNow)
		if err != nil {
			t.Fatal(err)
		}
		before := got
		before.Phrase, before.MessageID = strings.Clone(got.Phrase), strings.Clone(got.MessageID)
		for i := range body {
			body[i] = '#'
		}
		if got != before {
			t.Errorf("%s: the event changed with its body", tc.name)
		}
	}
}
