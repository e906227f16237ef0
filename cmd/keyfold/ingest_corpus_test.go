package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// hostile are texts that break something somewhere: SQL, logs, shells, formats,
// encodings, numbers.
var hostile = []string{
	`' OR '1'='1`, `'; DROP TABLE user_interactions; --`, `" UNION SELECT * FROM users; #`, `1); DELETE FROM user_interactions WHERE (1=1`,
	`\'; --`, `\`, `'`, `?`, `??`, `%27%20OR%201=1`, `/*!50000 SELECT 1*/`, `${jndi:ldap://x/a}`, `{"$gt":""}`, `%s%n%x%d`, "a\r\nlevel=ERROR",
	"\x1a", "\x00", "\x1b[2J", "\u202e", "\ufeff", "\uffff", "田中 🏴\U000e0067", "é", "e\u0301", "ß", "SS", "a ", "a", "A", "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80",
	"1e999", "-0", "NaN", "0x10", "9223372036854775808", "2147483648", "1.0", "true", "null", "[]", "{}",
	strings.Repeat("A", 255), strings.Repeat("A", 256), strings.Repeat("é", 255), strings.Repeat("🏴", 128), strings.Repeat("🏴", 129), strings.Repeat("🏴", 255),
	strings.Repeat("x", profile.MaxBodyBytes), strings.Repeat("[", 5000), strings.Repeat(`{"a":`, 5000),
	"0000-00-00T00:00:00Z", "0001-01-01T00:00:00Z", "0999-12-31T23:59:59.999Z", "1000-01-01T00:00:00+00:01", "1000-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	"2026-02-29T00:00:00Z", "2024-02-29T23:59:59.999999999-23:59", "1970-01-01T00:00:00Z",
	`{"a":1e308}`, `{"a":1e309}`, `{"a":-1e-400}`, `{"a":"\u0000"}`, `{"\u0000":1}`, `{"a":12345678901234567890123456789}`, `{"a":[[[[[[[[1]]]]]]]]}`, `{"a":1,"A":2}`, `{"a":"\ud83c\udff4"}`,
}

var eventFields = []string{"user_id", "event_type", "search_phrase", "product_id", "occurred_at", "metadata", "message_id", "version", "$where", "__proto__"}

// asString writes text as a JSON string, the bytes that are not UTF-8 as they are.
func asString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// corpus returns every hostile text in every field of a search and of a view, as
// a string and as it is; in the short form one of these four each, in turn.
func corpus() (bodies [][]byte) {
	for i, text := range hostile {
		for j, field := range eventFields {
			for k, value := range []string{asString(text), text} {
				for l, kind := range []string{"search", "product_view"} {
					if long || (i+j)%4 == 2*k+l {
						bodies = append(bodies, spoiled(kind, field, value))
					}
				}
			}
		}
	}
	return bodies
}

func spoiled(kind, field, value string) []byte {
	fields := [][2]string{{"user_id", "17"}, {"event_type", `"` + kind + `"`}, {"occurred_at", `"2026-02-10T14:30:00Z"`}}
	if kind == "search" {
		fields = append(fields, [2]string{"search_phrase", `"mug"`})
	} else {
		fields = append(fields, [2]string{"product_id", "7"})
	}
	var b bytes.Buffer
	b.WriteByte('{')
	there := false
	for _, f := range fields {
		if f[0] == field {
			f[1], there = value, true
		}
		fmt.Fprintf(&b, "%q:%s,", f[0], f[1])
	}
	if !there {
		fmt.Fprintf(&b, "%q:%s,", field, value)
	}
	b.Truncate(b.Len() - 1)
	b.WriteByte('}')
	return b.Bytes()
}

// The corpus through the whole process: no 500, every row what the schema says of
// it, and whatever is relayed is an event a worker can read.
//
// Promise(outbox/hostile): Hostile and malformed requests get no 500; a row says in its columns what
// its body says; all that is relayed can be read.
// Promise(outbox/long-ids)
func TestIngestHostileCorpus(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	o := s.observe(t)
	api, stop := s.spawn(t, "ingest", "--relay", "--http-addr=127.0.0.1:0", "--http-sender-rate=100000/s", "--http-rate=100000/s")
	defer stop()
	api.ready()
	taken := map[string]bool{}
	codes := map[int]int{}
	for i, body := range corpus() {
		target := api.url()
		if i%2 == 0 {
			target += "?partial=true"
		}
		a, err := send(target, "", body)
		if err != nil {
			t.Fatalf("%.200q: %v", body, err)
		}
		codes[a.Code]++
		switch a.Code {
		case http.StatusAccepted:
			for _, id := range a.ids() {
				taken[id] = true
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Fatalf("%.200q: %d %s", body, a.Code, a.Text)
		}
	}
	t.Logf("answers: %v, %d events", codes, len(taken))
	if len(taken) < 30 {
		t.Errorf("%d events were taken: strange texts are no fault", len(taken))
	}
	s.allSent(t)
	s.checkTable(t, len(taken))
	published := map[string]bool{}
	for _, e := range o.parsed() {
		published[e.MessageID] = true
	}
	if len(published) != len(taken) {
		t.Errorf("%d events were published, %d taken", len(published), len(taken))
	}
}

// checkTable compares each row's columns with its body.
func (s *shop) checkTable(t *testing.T, want int) {
	t.Helper()
	rows, err := s.pool(t).Query("SELECT user_id, event_type, search_phrase, product_id, occurred_at, metadata, message_id, body, shard FROM user_interactions")
	must.OK(t, err)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var (
			user, shard              int
			kind, occurred, id, body string
			phrase, metadata         sql.NullString
			product                  sql.NullInt64
		)
		must.OK(t, rows.Scan(&user, &kind, &phrase, &product, &occurred, &metadata, &id, &body, &shard))
		e, err := profile.ParseEvent([]byte(body), time.Now())
		if err != nil || !utf8.ValidString(body) {
			t.Errorf("the body of %q is no event: %v\n%.300q", id, err, body)
			continue
		}
		if user != int(e.UserID) || kind != e.Type.String() || phrase.String != e.Phrase || phrase.Valid != (e.Type == profile.Search) ||
			product.Int64 != int64(e.ProductID) || product.Valid == phrase.Valid || id != e.MessageID ||
			occurred != e.OccurredAt.Time().Format("2006-01-02 15:04:05.000") || shard%outbox.Shards != engine.SlotOf(e.UserID) {
			t.Errorf("the columns %d %q %v %v %q %q %d do not say what the body says: %.300q", user, kind, phrase, product, occurred, id, shard, body)
		}
		if metadata.Valid && !json.Valid([]byte(metadata.String)) {
			t.Errorf("metadata: %q", metadata.String)
		}
	}
	must.OK(t, rows.Err())
	if n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}
