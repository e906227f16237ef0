package engine

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"strconv"
	"strings"
	"testing"
)

// A word that stands in phrases and must not get into an error.
const private = "lingerie"

// Bad bodies, and what the error must say beside its reason.
var badBodies = []struct{ name, reason, body, says string }{
	{"too large", ReasonBodyTooLarge, message() + strings.Repeat(" ", MaxBodyBytes+1-len(message())), "65537"},
	{"too large and nonsense", ReasonBodyTooLarge, strings.Repeat("\xff", MaxBodyBytes+1), "65537"},

	{"not UTF-8 in a phrase", ReasonInvalidUTF8, search("search_phrase", "\"\xff\""), "byte 56"},
	{"not UTF-8 after the object", ReasonInvalidUTF8, message() + "\xc3", ""},
	{"overlong UTF-8", ReasonInvalidUTF8, message("x", "\"\xc0\xaf\""), ""},
	{"surrogate in UTF-8", ReasonInvalidUTF8, message("x", "\"\xed\xa0\x80\""), ""},

	{"empty", ReasonMalformedJSON, "", "after 0 bytes"},
	{"white space only", ReasonMalformedJSON, " \n", "one JSON object"},
	{"byte order mark", ReasonMalformedJSON, "\ufeff" + message(), "byte 0"},
	{"array", ReasonMalformedJSON, "[" + message() + "]", "one JSON object"},
	{"null", ReasonMalformedJSON, "null", ""},
	{"string", ReasonMalformedJSON, `"` + private + `"`, ""},
	{"form", ReasonMalformedJSON, "user_id=1", ""},
	{"no-break space", ReasonMalformedJSON, "\u00a0" + message(), ""},
	{"form feed", ReasonMalformedJSON, "\f" + message(), ""},
	{"NUL byte", ReasonMalformedJSON, "{\x00}", "'\\x00' at byte 1"},
	{"cut off after the brace", ReasonMalformedJSON, "{", ""},
	{"cut off in a key", ReasonMalformedJSON, `{"user`, "after 6 bytes"},
	{"cut off after a key", ReasonMalformedJSON, `{"user_id"`, "after 10 bytes"},
	{"cut off after the colon", ReasonMalformedJSON, `{"user_id":`, "after 11 bytes"},
	{"cut off after a value", ReasonMalformedJSON, `{"user_id":1`, "after 12 bytes"},
	{"cut off in an escape", ReasonMalformedJSON, `{"user\`, "after 7 bytes"},
	{"cut off in a unicode escape", ReasonMalformedJSON, `{"user\u00`, "after 10 bytes"},
	{"cut off in metadata", ReasonMalformedJSON, `{"metadata":{"a":[1,{"b":2}`, "after 27 bytes"},
	{"comma after the last member", ReasonMalformedJSON, strings.TrimSuffix(message(), "}") + ",}", "',' at byte 190"},
	{"comma after the last element", ReasonMalformedJSON, message("x", "[1,]"), "start of value"},
	{"comma before the first member", ReasonMalformedJSON, `{,"user_id":1}`, "',' at byte 1"},
	{"comma before the first element", ReasonMalformedJSON, message("x", "[,1]"), "start of value"},
	{"two commas", ReasonMalformedJSON, message("x", "[1,,2]"), ""},
	{"no comma", ReasonMalformedJSON, message("x", "[1 2]"), "',' or ']'"},
	{"no colon", ReasonMalformedJSON, `{"user_id" 1}`, "expecting ':'"},
	{"equals sign", ReasonMalformedJSON, `{"user_id"=1}`, "expecting ':'"},
	{"wrong bracket", ReasonMalformedJSON, message("x", "[1}"), ""},
	{"wrong brace", ReasonMalformedJSON, message("x", `{"a":1]`), ""},
	{"key without quotes", ReasonMalformedJSON, "{user_id:1}", "'u' at byte 1"},
	{"key in single quotes", ReasonMalformedJSON, "{'user_id':1}", "'\\'' at byte 1"},
	{"number as key", ReasonMalformedJSON, message("x", "{1:2}"), "must be a string"},
	{"comment", ReasonMalformedJSON, "/* */" + message(), ""},
	{"leading zero", ReasonMalformedJSON, message("user_id", "012345"), "'1' at byte 12"},
	{"plus sign", ReasonMalformedJSON, message("user_id", "+1"), ""},
	{"minus alone", ReasonMalformedJSON, message("x", "-"), "expecting digit"},
	{"no digit before the point", ReasonMalformedJSON, message("x", ".5"), ""},
	{"no digit after the point", ReasonMalformedJSON, message("x", "1."), "expecting digit"},
	{"no digit in the exponent", ReasonMalformedJSON, message("x", "1e"), "expecting digit"},
	{"no digit after the exponent's sign", ReasonMalformedJSON, message("x", "1e+"), "expecting digit"},
	{"hexadecimal number", ReasonMalformedJSON, message("user_id", "0x10"), ""},
	{"not a number", ReasonMalformedJSON, message("x", "NaN"), ""},
	{"infinity", ReasonMalformedJSON, message("x", "-Infinity"), ""},
	{"wrong literal", ReasonMalformedJSON, message("x", "nul"), "literal null"},
	{"literal cut off", ReasonMalformedJSON, `{"x":tru`, "after 8 bytes"},
	{"literal in upper case", ReasonMalformedJSON, message("x", "TRUE"), ""},
	{"literal too long", ReasonMalformedJSON, message("x", "nulls"), "',' or '}'"},
	{"line break in a string", ReasonMalformedJSON, search("search_phrase", "\""+private+"\n\""), "control character"},
	{"tab in a key", ReasonMalformedJSON, message("a\tb", "1"), "control character"},
	{"NUL in a string", ReasonMalformedJSON, message("x", "\"\x00\""), ""},
	{"unknown escape", ReasonMalformedJSON, message("x", `"\a"`), "escape sequence `\\a`"},
	{"escape in single quotes", ReasonMalformedJSON, message("x", `"\'"`), ""},
	{"upper-case U escape", ReasonMalformedJSON, message("x", `"\U0041"`), ""},
	{"bad hexadecimal digit", ReasonMalformedJSON, message("x", `"\u00g0"`), "`\\u00g0`"},
	{"short unicode escape", ReasonMalformedJSON, message("x", `"\u041"`), ""},
	{"bad second half of a pair", ReasonMalformedJSON, message("x", `"\ud83d\ude0"`), ""},

	{"second object", ReasonTrailingData, message() + message(), "only"},
	{"brace too many", ReasonTrailingData, message() + " }", ""},
	{"newline-delimited", ReasonTrailingData, message() + "\n" + message(), ""},
	{"comma after the object", ReasonTrailingData, message() + ",", ""},
	{"NUL after the object", ReasonTrailingData, message() + "\x00", ""},

	{"too deep", ReasonTooDeep, message("metadata", nest(MaxDepth, `{"a":`, "1", "}")), "32 deep"},
	{"too deep in arrays", ReasonTooDeep, message("x", nest(MaxDepth, "[", "", "]")), ""},
	{"far too deep", ReasonTooDeep, `{"x":` + strings.Repeat("[", 60_000), ""},

	{"lone high surrogate", ReasonLoneSurrogate, search("search_phrase", `"\ud83d"`), "ud83d"},
	{"lone low surrogate", ReasonLoneSurrogate, message("x", `"\ude00"`), "ude00"},
	{"surrogates swapped", ReasonLoneSurrogate, message("x", `"\ude00\ud83d"`), ""},
	{"high surrogate twice", ReasonLoneSurrogate, message("x", `"\ud83d\ud83d\ude00"`), ""},
	{"high surrogate before a letter", ReasonLoneSurrogate, message("x", `"\ud83d\u0041"`), ""},
	{"high surrogate before an escape", ReasonLoneSurrogate, message("x", `"\ud83d\n"`), ""},
	{"halves apart", ReasonLoneSurrogate, message("x", `"\ud83d \ude00"`), ""},
	{"lone surrogate in a key", ReasonLoneSurrogate, message("metadata", `{"\udfff":1}`), ""},

	{"field twice", ReasonDuplicateKey, strings.TrimSuffix(message(), "}") + `,"user_id":12345}`, `"user_id" again`},
	{"field twice, first null", ReasonDuplicateKey, `{"product_id":null,"product_id":1}`, "product_id"},
	{"field twice, once escaped", ReasonDuplicateKey, strings.TrimSuffix(message(), "}") + `,"user\u005fid":1}`, "user_id"},
	{"unknown key twice", ReasonDuplicateKey, message("x", `1,"x":2`), `"x"`},
	{"key twice in metadata", ReasonDuplicateKey, message("metadata", `{"a":1,"b":{"a":1},"a":2}`), `"a"`},
	{"key twice in metadata, once escaped", ReasonDuplicateKey, message("metadata", `{"/":1,"\/":2}`), `"/"`},
	{"key twice in an array", ReasonDuplicateKey, message("x", `[{"a":[{"":1,"":2}]}]`), `""`},
	{"key twice after an object of equal keys", ReasonDuplicateKey, message("metadata", `{"a":{"b":1},"b":1,"c":{"b":1},"b":2}`), `"b"`},
	{"long key twice", ReasonDuplicateKey, message("metadata", `{"a`+strings.Repeat("é", 50)+`":1,"a`+strings.Repeat("é", 50)+`":2}`), `é"...`},
	{"early key of thousands twice", ReasonDuplicateKey, message("metadata", object(8000, `"3":1`)), `"3"`},
	{"late key of thousands twice", ReasonDuplicateKey, message("metadata", object(8000, `"667":1`)), `"667"`},
	{"key twice beside an object of many", ReasonDuplicateKey, message("metadata", object(20, `"_x":`+object(40, `"_y":1`)+`,"_x":1`)), `"_x"`},
	{
		"unknown key of many twice", ReasonDuplicateKey,
		`{"_x":1,` + object(40, `"_x":1`)[1:], `"_x"`,
	},

	{"key in camel case", ReasonWrongKeyCase, message("User_ID", "1"), `expected "user_id"`},
	{"key in upper case", ReasonWrongKeyCase, message("version", "", "VERSION", `"2.0"`), `expected "version"`},
	{"key with a long s", ReasonWrongKeyCase, message("u\u017fer_id", "1"), `expected "user_id"`},
	{"key in another case, escaped", ReasonWrongKeyCase, message(`\u0055ser_id`, "1"), `"User_id"`},

	{"nothing", ReasonMissingField, "{}", "user_id"},
	{"no user", ReasonMissingField, message("user_id", ""), "user_id"},
	{"no type", ReasonMissingField, message("event_type", ""), "event_type"},
	{"no time", ReasonMissingField, message("occurred_at", ""), "occurred_at"},

	{"user null", ReasonWrongType, message("user_id", "null"), "found null, expected a number"},
	{"user in quotes", ReasonWrongType, message("user_id", `"12345"`), "user_id: found a string, expected a number"},
	{"user in an array", ReasonWrongType, message("user_id", "[1]"), "an array"},
	{"user an object", ReasonWrongType, message("user_id", "{}"), "an object"},
	{"user true", ReasonWrongType, message("user_id", "true"), "a boolean"},
	{"user with a fraction", ReasonWrongType, message("user_id", "12.0"), "12.0"},
	{"user with an exponent", ReasonWrongType, message("user_id", "1e3"), "1e3"},
	{"user with an upper-case exponent", ReasonWrongType, message("user_id", "1E3"), "1E3"},
	{"negative user with a fraction", ReasonWrongType, message("user_id", "-1.5"), ""},
	{"product in quotes", ReasonWrongType, message("product_id", `"789"`), "product_id"},
	{"product with a fraction", ReasonWrongType, message("product_id", "789.0"), "product_id"},
	{"product false", ReasonWrongType, message("product_id", "false"), "product_id"},
	{"product of a search in quotes", ReasonWrongType, search("product_id", `"789"`), "product_id"},
	{"type a number", ReasonWrongType, message("event_type", "1"), "event_type"},
	{"type null", ReasonWrongType, message("event_type", "null"), "event_type"},
	{"phrase a number", ReasonWrongType, search("search_phrase", "1984"), "search_phrase: found a number"},
	{"phrase an array", ReasonWrongType, message("search_phrase", `["`+private+`"]`), "search_phrase: found an array"},
	{"time a number", ReasonWrongType, message("occurred_at", "1770733800"), "occurred_at"},
	{"time null", ReasonWrongType, message("occurred_at", "null"), "occurred_at"},
	{"message id a number", ReasonWrongType, message("message_id", "1"), "message_id"},
	{"message id false", ReasonWrongType, message("message_id", "false"), "message_id"},

	{"version 2.0", ReasonUnsupportedVersion, message("version", `"2.0"`), `"2.0"`},
	{"version 1", ReasonUnsupportedVersion, message("version", `"1"`), ""},
	{"version a number", ReasonUnsupportedVersion, message("version", "1.0"), "a number"},
	{"version null", ReasonUnsupportedVersion, message("version", "null"), "null"},
	{"version before all other fields", ReasonUnsupportedVersion, `{"version":"3"}`, ""},

	{"metadata an array", ReasonMetadataNotObject, message("metadata", "[1]"), "an array"},
	{"metadata a string", ReasonMetadataNotObject, message("metadata", `"{}"`), "a string"},
	{"metadata false", ReasonMetadataNotObject, message("metadata", "false"), ""},
	{"metadata a number", ReasonMetadataNotObject, message("metadata", "0"), ""},

	{"unknown type", ReasonUnknownEventType, message("event_type", `"add_to_cart"`), `"add_to_cart", expected one of [search`},
	{"type in another case", ReasonUnknownEventType, message("event_type", `"Search"`), ""},
	{"type empty", ReasonUnknownEventType, message("event_type", `""`), ""},
	{"type with a space", ReasonUnknownEventType, message("event_type", `"search "`), ""},
	{"type very long", ReasonUnknownEventType, message("event_type", `"`+strings.Repeat("x", 9999)+`"`), `x"...`},

	{"user zero", ReasonIDOutOfRange, message("user_id", "0"), "user_id: found \"0\", expected 1..2147483647"},
	{"user minus zero", ReasonIDOutOfRange, message("user_id", "-0"), ""},
	{"user negative", ReasonIDOutOfRange, message("user_id", "-5"), `"-5"`},
	{"user over int32", ReasonIDOutOfRange, message("user_id", "2147483648"), ""},
	{"user over int64", ReasonIDOutOfRange, message("user_id", "18446744073709551617"), ""},
	{"user of many digits", ReasonIDOutOfRange, message("user_id", "1"+strings.Repeat("0", 9999)), `0"...`},
	{"product zero", ReasonIDOutOfRange, message("product_id", "0"), "product_id"},
	{"product negative", ReasonIDOutOfRange, message("product_id", "-1"), ""},
	{"product over int32", ReasonIDOutOfRange, message("product_id", "4294967297"), ""},
	{"product zero of a search", ReasonIDOutOfRange, search("product_id", "0"), "product_id"},

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

	{"NUL in the phrase", ReasonNulCharacter, search("search_phrase", `"é`+private+`\u0000x"`), "character 10"},
	{"NUL in the message id", ReasonNulCharacter, message("message_id", `"\u0000"`), "message_id"},

	{"message id empty", ReasonBadMessageID, message("message_id", `""`), "found 0 characters, expected 1..128"},
	{"message id of 129 characters", ReasonBadMessageID, message("message_id", `"`+strings.Repeat("é", 129)+`"`), "129"},

	{"time of no calendar", ReasonBadTimestamp, message("occurred_at", `"2026-02-30T00:00:00Z"`), "2026-02-30"},
	{"time in SQL", ReasonBadTimestamp, message("occurred_at", `"2026-02-10 14:30:00"`), "RFC 3339"},
	{"time with a NUL", ReasonBadTimestamp, message("occurred_at", `"2026-02-10T14:30:00Z\u0000"`), ""},
	{"time before what SQL keeps", ReasonBadTimestamp, message("occurred_at", `"0001-01-01T00:00:00Z"`), "the year 1000"},
	{"time before what SQL keeps by its offset", ReasonBadTimestamp, message("occurred_at", `"1000-01-01T00:00:00+00:01"`), "occurred_at"},
	{"time without offset", ReasonTimestampNoOffset, message("occurred_at", `"2026-02-10T14:30:00"`), "expected Z or"},
	{"time far ahead", ReasonFutureEvent, message("occurred_at", `"9999-12-31T23:59:59Z"`), " years after now, expected at most 5 minutes"},
	{"time a millisecond too far ahead", ReasonFutureEvent, message("occurred_at", `"2026-02-10T15:05:00.001Z"`), "5m0.001s after now, expected at most 5 minutes"},
	{"time too far ahead by its offset", ReasonFutureEvent, message("occurred_at", `"2026-02-10T14:30:00-01:00"`), ""},

	// The order of the faults of one body.
	{"syntax before fields", ReasonMalformedJSON, `{"user_id":"x","version":"9"`, ""},
	{"user before type", ReasonIDOutOfRange, `{"event_type":"x","user_id":0}`, ""},
	{"fields before time", ReasonUnknownEventType, message("occurred_at", `"x"`, "event_type", `"x"`), ""},
}

func TestParseEventRefuses(t *testing.T) {
	for _, tc := range badBodies {
		t.Run(tc.name, func(t *testing.T) {
			e, err := ParseEvent([]byte(tc.body), testNow)
			if err == nil {
				t.Fatalf("got %+v, want %s", e, tc.reason)
			}
			if ReasonOf(err) != tc.reason || KindOf(err) != Permanent || e != (Event{}) {
				t.Errorf("got %+v, %s %s (%v), want %s", e, KindOf(err), ReasonOf(err), err, tc.reason)
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

// reasons returns the value of every constant in reasons.go that is a reason.
func reasons(t *testing.T) []string {
	file, err := parser.ParseFile(gotoken.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
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
		t.Errorf("%s is not listed in reasons.go", reason)
	}
}
