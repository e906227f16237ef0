package profile

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"strconv"
	"strings"
	"testing"

	"keyfold/engine"
)

// A word that stands in phrases and must not get into an error.
const private = "lingerie"

// Bad bodies, and what the error must say beside its reason.
var badBodies = []struct{ name, reason, body, says string }{
	{"too large", engine.ReasonBodyTooLarge, message() + strings.Repeat(" ", MaxBodyBytes+1-len(message())), "65537"},
	{"too large and nonsense", engine.ReasonBodyTooLarge, strings.Repeat("\xff", MaxBodyBytes+1), "65537"},

	{"not UTF-8 in a phrase", engine.ReasonInvalidUTF8, search("search_phrase", "\"\xff\""), "byte 56"},
	{"not UTF-8 after the object", engine.ReasonInvalidUTF8, message() + "\xc3", ""},
	{"overlong UTF-8", engine.ReasonInvalidUTF8, message("x", "\"\xc0\xaf\""), ""},
	{"surrogate in UTF-8", engine.ReasonInvalidUTF8, message("x", "\"\xed\xa0\x80\""), ""},

	{"empty", engine.ReasonMalformedJSON, "", "after 0 bytes"},
	{"white space only", engine.ReasonMalformedJSON, " \n", "one JSON object"},
	{"byte order mark", engine.ReasonMalformedJSON, "\ufeff" + message(), "byte 0"},
	{"array", engine.ReasonMalformedJSON, "[" + message() + "]", "one JSON object"},
	{"null", engine.ReasonMalformedJSON, "null", ""},
	{"string", engine.ReasonMalformedJSON, `"` + private + `"`, ""},
	{"form", engine.ReasonMalformedJSON, "user_id=1", ""},
	{"no-break space", engine.ReasonMalformedJSON, "\u00a0" + message(), ""},
	{"form feed", engine.ReasonMalformedJSON, "\f" + message(), ""},
	{"NUL byte", engine.ReasonMalformedJSON, "{\x00}", "'\\x00' at byte 1"},
	{"cut off after the brace", engine.ReasonMalformedJSON, "{", ""},
	{"cut off in a key", engine.ReasonMalformedJSON, `{"user`, "after 6 bytes"},
	{"cut off after a key", engine.ReasonMalformedJSON, `{"user_id"`, "after 10 bytes"},
	{"cut off after the colon", engine.ReasonMalformedJSON, `{"user_id":`, "after 11 bytes"},
	{"cut off after a value", engine.ReasonMalformedJSON, `{"user_id":1`, "after 12 bytes"},
	{"cut off in an escape", engine.ReasonMalformedJSON, `{"user\`, "after 7 bytes"},
	{"cut off in a unicode escape", engine.ReasonMalformedJSON, `{"user\u00`, "after 10 bytes"},
	{"cut off in metadata", engine.ReasonMalformedJSON, `{"metadata":{"a":[1,{"b":2}`, "after 27 bytes"},
	{"comma after the last member", engine.ReasonMalformedJSON, strings.TrimSuffix(message(), "}") + ",}", "',' at byte 190"},
	{"comma after the last element", engine.ReasonMalformedJSON, message("x", "[1,]"), "start of value"},
	{"comma before the first member", engine.ReasonMalformedJSON, `{,"user_id":1}`, "',' at byte 1"},
	{"comma before the first element", engine.ReasonMalformedJSON, message("x", "[,1]"), "start of value"},
	{"two commas", engine.ReasonMalformedJSON, message("x", "[1,,2]"), ""},
	{"no comma", engine.ReasonMalformedJSON, message("x", "[1 2]"), "',' or ']'"},
	{"no colon", engine.ReasonMalformedJSON, `{"user_id" 1}`, "expecting ':'"},
	{"equals sign", engine.ReasonMalformedJSON, `{"user_id"=1}`, "expecting ':'"},
	{"wrong bracket", engine.ReasonMalformedJSON, message("x", "[1}"), ""},
	{"wrong brace", engine.ReasonMalformedJSON, message("x", `{"a":1]`), ""},
	{"key without quotes", engine.ReasonMalformedJSON, "{user_id:1}", "'u' at byte 1"},
	{"key in single quotes", engine.ReasonMalformedJSON, "{'user_id':1}", "'\\'' at byte 1"},
	{"number as key", engine.ReasonMalformedJSON, message("x", "{1:2}"), "must be a string"},
	{"comment", engine.ReasonMalformedJSON, "/* */" + message(), ""},
	{"leading zero", engine.ReasonMalformedJSON, message("user_id", "012345"), "'1' at byte 12"},
	{"plus sign", engine.ReasonMalformedJSON, message("user_id", "+1"), ""},
	{"minus alone", engine.ReasonMalformedJSON, message("x", "-"), "expecting digit"},
	{"no digit before the point", engine.ReasonMalformedJSON, message("x", ".5"), ""},
	{"no digit after the point", engine.ReasonMalformedJSON, message("x", "1."), "expecting digit"},
	{"no digit in the exponent", engine.ReasonMalformedJSON, message("x", "1e"), "expecting digit"},
	{"no digit after the exponent's sign", engine.ReasonMalformedJSON, message("x", "1e+"), "expecting digit"},
	{"hexadecimal number", engine.ReasonMalformedJSON, message("user_id", "0x10"), ""},
	{"not a number", engine.ReasonMalformedJSON, message("x", "NaN"), ""},
	{"infinity", engine.ReasonMalformedJSON, message("x", "-Infinity"), ""},
	{"wrong literal", engine.ReasonMalformedJSON, message("x", "nul"), "literal null"},
	{"literal cut off", engine.ReasonMalformedJSON, `{"x":tru`, "after 8 bytes"},
	{"literal in upper case", engine.ReasonMalformedJSON, message("x", "TRUE"), ""},
	{"literal too long", engine.ReasonMalformedJSON, message("x", "nulls"), "',' or '}'"},
	{"line break in a string", engine.ReasonMalformedJSON, search("search_phrase", "\""+private+"\n\""), "control character"},
	{"tab in a key", engine.ReasonMalformedJSON, message("a\tb", "1"), "control character"},
	{"NUL in a string", engine.ReasonMalformedJSON, message("x", "\"\x00\""), ""},
	{"unknown escape", engine.ReasonMalformedJSON, message("x", `"\a"`), "escape sequence `\\a`"},
	{"escape in single quotes", engine.ReasonMalformedJSON, message("x", `"\'"`), ""},
	{"upper-case U escape", engine.ReasonMalformedJSON, message("x", `"\U0041"`), ""},
	{"bad hexadecimal digit", engine.ReasonMalformedJSON, message("x", `"\u00g0"`), "`\\u00g0`"},
	{"short unicode escape", engine.ReasonMalformedJSON, message("x", `"\u041"`), ""},
	{"bad second half of a pair", engine.ReasonMalformedJSON, message("x", `"\ud83d\ude0"`), ""},

	{"second object", engine.ReasonTrailingData, message() + message(), "only"},
	{"brace too many", engine.ReasonTrailingData, message() + " }", ""},
	{"newline-delimited", engine.ReasonTrailingData, message() + "\n" + message(), ""},
	{"comma after the object", engine.ReasonTrailingData, message() + ",", ""},
	{"NUL after the object", engine.ReasonTrailingData, message() + "\x00", ""},

	{"too deep", engine.ReasonTooDeep, message("metadata", nest(engine.MaxDepth, `{"a":`, "1", "}")), "32 deep"},
	{"too deep in arrays", engine.ReasonTooDeep, message("x", nest(engine.MaxDepth, "[", "", "]")), ""},
	{"far too deep", engine.ReasonTooDeep, `{"x":` + strings.Repeat("[", 60_000), ""},

	{"lone high surrogate", engine.ReasonLoneSurrogate, search("search_phrase", `"\ud83d"`), "ud83d"},
	{"lone low surrogate", engine.ReasonLoneSurrogate, message("x", `"\ude00"`), "ude00"},
	{"surrogates swapped", engine.ReasonLoneSurrogate, message("x", `"\ude00\ud83d"`), ""},
	{"high surrogate twice", engine.ReasonLoneSurrogate, message("x", `"\ud83d\ud83d\ude00"`), ""},
	{"high surrogate before a letter", engine.ReasonLoneSurrogate, message("x", `"\ud83d\u0041"`), ""},
	{"high surrogate before an escape", engine.ReasonLoneSurrogate, message("x", `"\ud83d\n"`), ""},
	{"halves apart", engine.ReasonLoneSurrogate, message("x", `"\ud83d \ude00"`), ""},
	{"lone surrogate in a key", engine.ReasonLoneSurrogate, message("metadata", `{"\udfff":1}`), ""},

	{"field twice", engine.ReasonDuplicateKey, strings.TrimSuffix(message(), "}") + `,"user_id":12345}`, `"user_id" again`},
	{"field twice, first null", engine.ReasonDuplicateKey, `{"product_id":null,"product_id":1}`, "product_id"},
	{"field twice, once escaped", engine.ReasonDuplicateKey, strings.TrimSuffix(message(), "}") + `,"user\u005fid":1}`, "user_id"},
	{"unknown key twice", engine.ReasonDuplicateKey, message("x", `1,"x":2`), `"x"`},
	{"key twice in metadata", engine.ReasonDuplicateKey, message("metadata", `{"a":1,"b":{"a":1},"a":2}`), `"a"`},
	{"key twice in metadata, once escaped", engine.ReasonDuplicateKey, message("metadata", `{"/":1,"\/":2}`), `"/"`},
	{"key twice in an array", engine.ReasonDuplicateKey, message("x", `[{"a":[{"":1,"":2}]}]`), `""`},
	{"key twice after an object of equal keys", engine.ReasonDuplicateKey, message("metadata", `{"a":{"b":1},"b":1,"c":{"b":1},"b":2}`), `"b"`},
	{"long key twice", engine.ReasonDuplicateKey, message("metadata", `{"a`+strings.Repeat("é", 50)+`":1,"a`+strings.Repeat("é", 50)+`":2}`), `é"...`},
	{"early key of thousands twice", engine.ReasonDuplicateKey, message("metadata", object(8000, `"3":1`)), `"3"`},
	{"late key of thousands twice", engine.ReasonDuplicateKey, message("metadata", object(8000, `"667":1`)), `"667"`},
	{"key twice beside an object of many", engine.ReasonDuplicateKey, message("metadata", object(20, `"_x":`+object(40, `"_y":1`)+`,"_x":1`)), `"_x"`},
	{
		"unknown key of many twice", engine.ReasonDuplicateKey,
		`{"_x":1,` + object(40, `"_x":1`)[1:], `"_x"`,
	},

	{"key in camel case", engine.ReasonWrongKeyCase, message("User_ID", "1"), `expected "user_id"`},
	{"key in upper case", engine.ReasonWrongKeyCase, message("version", "", "VERSION", `"2.0"`), `expected "version"`},
	{"key with a long s", engine.ReasonWrongKeyCase, message("u\u017fer_id", "1"), `expected "user_id"`},
	{"key in another case, escaped", engine.ReasonWrongKeyCase, message(`\u0055ser_id`, "1"), `"User_id"`},

	{"nothing", engine.ReasonMissingField, "{}", "user_id"},
	{"no user", engine.ReasonMissingField, message("user_id", ""), "user_id"},
	{"no type", engine.ReasonMissingField, message("event_type", ""), "event_type"},
	{"no time", engine.ReasonMissingField, message("occurred_at", ""), "occurred_at"},

	{"user null", engine.ReasonWrongType, message("user_id", "null"), "found null, expected a number"},
	{"user in quotes", engine.ReasonWrongType, message("user_id", `"12345"`), "user_id: found a string, expected a number"},
	{"user in an array", engine.ReasonWrongType, message("user_id", "[1]"), "an array"},
	{"user an object", engine.ReasonWrongType, message("user_id", "{}"), "an object"},
	{"user true", engine.ReasonWrongType, message("user_id", "true"), "a boolean"},
	{"user with a fraction", engine.ReasonWrongType, message("user_id", "12.0"), "12.0"},
	{"user with an exponent", engine.ReasonWrongType, message("user_id", "1e3"), "1e3"},
	{"user with an upper-case exponent", engine.ReasonWrongType, message("user_id", "1E3"), "1E3"},
	{"negative user with a fraction", engine.ReasonWrongType, message("user_id", "-1.5"), ""},
	{"product in quotes", engine.ReasonWrongType, message("product_id", `"789"`), "product_id"},
	{"product with a fraction", engine.ReasonWrongType, message("product_id", "789.0"), "product_id"},
	{"product false", engine.ReasonWrongType, message("product_id", "false"), "product_id"},
	{"product of a search in quotes", engine.ReasonWrongType, search("product_id", `"789"`), "product_id"},
	{"type a number", engine.ReasonWrongType, message("event_type", "1"), "event_type"},
	{"type null", engine.ReasonWrongType, message("event_type", "null"), "event_type"},
	{"phrase a number", engine.ReasonWrongType, search("search_phrase", "1984"), "search_phrase: found a number"},
	{"phrase an array", engine.ReasonWrongType, message("search_phrase", `["`+private+`"]`), "search_phrase: found an array"},
	{"time a number", engine.ReasonWrongType, message("occurred_at", "1770733800"), "occurred_at"},
	{"time null", engine.ReasonWrongType, message("occurred_at", "null"), "occurred_at"},
	{"message id a number", engine.ReasonWrongType, message("message_id", "1"), "message_id"},
	{"message id false", engine.ReasonWrongType, message("message_id", "false"), "message_id"},

	{"version 2.0", ReasonUnsupportedVersion, message("version", `"2.0"`), `"2.0"`},
	{"version 1", ReasonUnsupportedVersion, message("version", `"1"`), ""},
	{"version a number", ReasonUnsupportedVersion, message("version", "1.0"), "a number"},
	{"version null", ReasonUnsupportedVersion, message("version", "null"), "null"},
	{"version before all other fields", ReasonUnsupportedVersion, `{"version":"3"}`, ""},

	{"metadata an array", ReasonMetadataNotObject, message("metadata", "[1]"), "an array"},
	{"metadata a string", ReasonMetadataNotObject, message("metadata", `"{}"`), "a string"},
	{"metadata false", ReasonMetadataNotObject, message("metadata", "false"), ""},
	{"metadata a number", ReasonMetadataNotObject, message("metadata", "0"), ""},

	{"unknown type", engine.ReasonUnknownEventType, message("event_type", `"no_such_type"`), `"no_such_type", expected one of [search`},
	{"type in another case", engine.ReasonUnknownEventType, message("event_type", `"Search"`), ""},
	{"type empty", engine.ReasonUnknownEventType, message("event_type", `""`), ""},
	{"type with a space", engine.ReasonUnknownEventType, message("event_type", `"search "`), ""},
	{"type very long", engine.ReasonUnknownEventType, message("event_type", `"`+strings.Repeat("x", 9999)+`"`), `x"...`},

	{"user zero", engine.ReasonIDOutOfRange, message("user_id", "0"), "user_id: found \"0\", expected 1..2147483647"},
	{"user minus zero", engine.ReasonIDOutOfRange, message("user_id", "-0"), ""},
	{"user negative", engine.ReasonIDOutOfRange, message("user_id", "-5"), `"-5"`},
	{"user over int32", engine.ReasonIDOutOfRange, message("user_id", "2147483648"), ""},
	{"user over int64", engine.ReasonIDOutOfRange, message("user_id", "18446744073709551617"), ""},
	{"user of many digits", engine.ReasonIDOutOfRange, message("user_id", "1"+strings.Repeat("0", 9999)), `0"...`},
	{"product zero", engine.ReasonIDOutOfRange, message("product_id", "0"), "product_id"},
	{"product negative", engine.ReasonIDOutOfRange, message("product_id", "-1"), ""},
	{"product over int32", engine.ReasonIDOutOfRange, message("product_id", "4294967297"), ""},
	{"product zero of a search", engine.ReasonIDOutOfRange, search("product_id", "0"), "product_id"},

	{"search without phrase", ReasonSearchWithoutPhrase, search("search_phrase", ""), "search_phrase"},
	{"search with null phrase", ReasonSearchWithoutPhrase, search("search_phrase", "null"), ""},
	{"search with empty phrase", ReasonSearchWithoutPhrase, search("search_phrase", `""`), ""},
	{"search with blank phrase", ReasonSearchWithoutPhrase, search("search_phrase", `" \t\u00a0\u3000"`), ""},
	{"search with a product only", ReasonSearchWithoutPhrase, search("search_phrase", "", "product_id", "789"), ""},

	{"product event without product", ReasonProductEventNoTarget, message("product_id", ""), "product_view"},
	{"product event with null product", ReasonProductEventNoTarget, message("product_id", "null"), ""},
	{
		"product event with a phrase only", ReasonProductEventNoTarget,
		message("product_id", "", "search_phrase", `"`+private+`"`), "",
	},

	{"product event with a phrase", ReasonPhraseAndProduct, message("search_phrase", `"`+private+`"`), "8 characters"},
	{"product event with a blank phrase", ReasonPhraseAndProduct, message("search_phrase", `" "`), ""},
	{"search with a product", ReasonPhraseAndProduct, search("product_id", "789"), "product_id: found 789"},

	{"phrase of 256 characters", ReasonPhraseTooLong, search("search_phrase", `"`+strings.Repeat("ы", 256)+`"`), "256 characters"},
	{"phrase of 256 characters with blanks", ReasonPhraseTooLong, search("search_phrase", `"`+private+strings.Repeat(" ", 248)+`"`), "256"},

	{"NUL in the phrase", engine.ReasonNulCharacter, search("search_phrase", `"é`+private+`\u0000x"`), "character 10"},
	{"NUL in the message id", engine.ReasonNulCharacter, message("message_id", `"\u0000"`), "message_id"},

	{"message id empty", ReasonBadMessageID, message("message_id", `""`), "found 0 characters, expected 1..128"},
	{"message id of 129 characters", ReasonBadMessageID, message("message_id", `"`+strings.Repeat("é", 129)+`"`), "129"},

	{"time of no calendar", engine.ReasonBadTimestamp, message("occurred_at", `"2026-02-30T00:00:00Z"`), "2026-02-30"},
	{"time in SQL", engine.ReasonBadTimestamp, message("occurred_at", `"2026-02-10 14:30:00"`), "RFC 3339"},
	{"time with a NUL", engine.ReasonBadTimestamp, message("occurred_at", `"2026-02-10T14:30:00Z\u0000"`), ""},
	{"time before what SQL keeps", engine.ReasonBadTimestamp, message("occurred_at", `"0001-01-01T00:00:00Z"`), "the year 1000"},
	{"time before what SQL keeps by its offset", engine.ReasonBadTimestamp, message("occurred_at", `"1000-01-01T00:00:00+00:01"`), "occurred_at"},
	{"time without offset", engine.ReasonTimestampNoOffset, message("occurred_at", `"2026-02-10T14:30:00"`), "expected Z or"},
	{"time far ahead", engine.ReasonFutureEvent, message("occurred_at", `"9999-12-31T23:59:59Z"`), " years after now, expected at most 5 minutes"},
	{"time a millisecond too far ahead", engine.ReasonFutureEvent, message("occurred_at", `"2026-02-10T15:05:00.001Z"`), "5m0.001s after now, expected at most 5 minutes"},
	{"time too far ahead by its offset", engine.ReasonFutureEvent, message("occurred_at", `"2026-02-10T14:30:00-01:00"`), ""},

	// The order of the faults of one body.
	{"syntax before fields", engine.ReasonMalformedJSON, `{"user_id":"x","version":"9"`, ""},
	{"user before type", engine.ReasonIDOutOfRange, `{"event_type":"x","user_id":0}`, ""},
	{"fields before time", engine.ReasonUnknownEventType, message("occurred_at", `"x"`, "event_type", `"x"`), ""},
}

// Promise(event/malformed): A malformed event is dead-lettered at once with a reason and never
// retried; its neighbours are folded.
// Promise(outbox/year-1000): A time before the year 1000 is refused where it is read, with the field's
// name.
// Promise(json/refused): Keys twice, invalid UTF-8, keys in another case, numbers that do not fit,
// depth and size are refused before anything is built.
func TestParseEventRefuses(t *testing.T) {
	for _, tc := range badBodies {
		t.Run(tc.name, func(t *testing.T) {
			e, err := ParseEvent([]byte(tc.body), testNow)
			if err == nil {
				t.Fatalf("got %+v, want %s", e, tc.reason)
			}
			if engine.ReasonOf(err) != tc.reason || engine.KindOf(err) != engine.Permanent || e != (Event{}) {
				t.Errorf("got %+v, %s %s (%v), want %s", e, engine.KindOf(err), engine.ReasonOf(err), err, tc.reason)
			}
			text := err.Error()
			if !strings.Contains(text, tc.says) {
				t.Errorf("the error %q does not say %q", text, tc.says)
			}
			if strings.Contains(text, private) || len(text) > 250 {
				t.Errorf("the error says too much: %q", text)
			}
		})
	}
}

// reasons returns the value of every constant that is a reason: the engine's, and those
// of events alone.
func reasons(t *testing.T) (values []string) {
	for _, name := range []string{"../reasons.go", "event_reasons.go"} {
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, constants(t, file)...)
	}
	return values
}

func constants(t *testing.T, file *ast.File) (values []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

// Promise(event/malformed)
func TestEveryReasonHasABadBody(t *testing.T) {
	tested := map[string]bool{}
	for _, tc := range badBodies {
		tested[tc.reason] = true
	}
	for _, reason := range reasons(t) {
		if !tested[reason] {
			t.Errorf("no body is refused as %s", reason)
		}
		delete(tested, reason)
	}
	for reason := range tested {
		t.Errorf("%s is not listed among the reasons", reason)
	}
}

func TestEmptyMetadataOfPHP(t *testing.T) {
	body := func(metadata string) []byte {
		return []byte(`{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-02-10T14:30:00Z","metadata":` + metadata + `}`)
	}
	for metadata, want := range map[string]string{"[]": "", "[ \n]": "", "[[]]": ReasonMetadataNotObject, "[{}]": ReasonMetadataNotObject, `"[]"`: ReasonMetadataNotObject} {
		_, err := ParseEvent(body(metadata), engine.Millis(1<<50).Time())
		if got := engine.ReasonOf(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%s: %v, want %q", metadata, err, want)
		}
	}
}
