package ingest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
)

// hostile are texts that break something somewhere: SQL, shells, logs, HTML,
// templates, paths, formats, encodings, numbers.
var hostile = []string{
	`' OR '1'='1`, `'; DROP TABLE user_interactions; --`, `" UNION SELECT * FROM users; #`, `1); DELETE FROM user_interactions WHERE (1=1`, `\'; --`, `%27%20OR%201=1`,
	`$(reboot)`, "`id`", `| cat /etc/passwd`, `../../../../etc/passwd`, `C:\boot.ini`, `${jndi:ldap://x/a}`, `{{7*7}}`, `<%= 1 %>`, `<script>alert(1)</script>`, `{"$gt":""}`, `{"$where":"sleep(1)"}`,
	`%s%n%x%d`, "a\r\nSet-Cookie: x=1", "a\nlevel=ERROR msg=forged", "\x1b[2J", "\x00", "\u202e\u2066", "\ufeff", "\ufffd\uffff", "Ω≈ç√∫ 田中 🏴\U000e0067", "é" + "\u0301\u0301\u0301",
	"\xff\xfe", "\xc0\xaf", "\xed\xa0\x80", "1e999", "-0", "NaN", "Infinity", "0x10", "9223372036854775808", "1.0000000000000000000000001", "true", "null", "[]", "{}",
	strings.Repeat("A", 300), strings.Repeat("A", profile.MaxBodyBytes), strings.Repeat("[", 5000), strings.Repeat(`{"a":`, 5000), strings.Repeat("é", 200),
}

var eventFields = []string{"user_id", "event_type", "search_phrase", "product_id", "occurred_at", "metadata", "message_id", "version", "$where", "__proto__"}

// asString writes text as a JSON string, the bytes that are not UTF-8 as they
// are.
func asString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ':
			b.WriteString(`\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// checkStored: whatever was taken is what its consumers and the tables take.
func checkStored(t testing.TB, m *memory) {
	t.Helper()
	for id, body := range m.bodies {
		e, err := profile.ParseEvent([]byte(body), time.Now())
		if err != nil || e != m.events[id] || e.MessageID != id || strings.ContainsAny(id+e.Phrase, "\x00") {
			t.Errorf("%q is stored as %.200q: %v", id, body, err)
		}
	}
}

// Every hostile text in every field, as a string and as it is, alone and beside
// a good event: never a 5xx, never a broken row.
//
// Promise(outbox/hostile)
func TestHostileEvents(t *testing.T) {
	m := newMemory()
	s := newTestServer(t, onLoopback(), m)
	for _, text := range hostile {
		for _, field := range eventFields {
			for _, value := range []string{asString(text), text} {
				for _, body := range []string{event(field, value), "[" + view(1) + "," + event(field, value) + "]", event("event_type", `"search"`, "product_id", "", field, value)} {
					for _, target := range []string{"/v1/events", "/v1/events?partial=true"} {
						r := request(http.MethodPost, target, asJSON, strings.NewReader(body))
						r.Host = "localhost"
						if w, _ := serve(t, s, r); w.Code >= 500 {
							t.Fatalf("%.200q: %d", body, w.Code)
						}
					}
				}
			}
		}
	}
	if m.len() < len(hostile) {
		t.Errorf("only %d events were taken: strange texts are no fault", m.len())
	}
	checkStored(t, m)
}

// Hostile texts everywhere else in a request.
//
// Promise(outbox/hostile)
func TestHostileRequests(t *testing.T) {
	c := onLoopback(goodToken)
	m := newMemory()
	s := newTestServer(t, c, m)
	for _, text := range hostile {
		for _, spoil := range []func(*http.Request){
			func(r *http.Request) { r.Method = text },
			func(r *http.Request) { r.URL.Path = text },
			func(r *http.Request) { r.URL.Path += "/" + text },
			func(r *http.Request) { r.URL.RawQuery = text },
			func(r *http.Request) { r.URL.RawQuery = "partial=" + text },
			func(r *http.Request) { r.Host = text },
			func(r *http.Request) { r.RemoteAddr = text },
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) },
			func(r *http.Request) { r.Header.Set("Content-Type", text) },
			func(r *http.Request) { r.Header.Set("Content-Type", asJSON+";charset="+text) },
			func(r *http.Request) { r.Header.Set("Content-Encoding", text) },
			func(r *http.Request) { r.Header.Set("X-Request-Id", text) },
		} {
			r := from("192.0.2.1:1", goodToken)
			spoil(r)
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, r); w.Code >= 500 {
				t.Fatalf("%+v: %d", r, w.Code)
			}
		}
	}
	checkStored(t, m)
}

// FuzzRequest: no request meets a 5xx, or an answer that is not described.
func FuzzRequest(f *testing.F) {
	for _, text := range hostile[:20] {
		f.Add("POST", "/v1/events", "partial=1", asJSON, "Bearer "+text, []byte(event("message_id", asString(text))))
	}
	f.Add("GET", "/readyz", "", "", "", []byte(nil))
	f.Add("POST", "/v1/events", "", asLines, "Bearer "+goodToken, []byte(view(1)+"\n"+view(2)))
	c := onLoopback(goodToken)
	f.Fuzz(func(t *testing.T, method, path, query, contentType, authorization string, body []byte) {
		m := newMemory()
		s := newTestServer(t, c, m)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		r.Method, r.URL = method, &url.URL{Path: path, RawQuery: query}
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		checkDescribed(t, r, w)
		if w.Code >= 500 || m.len() > 0 && w.Code != http.StatusAccepted {
			t.Fatalf("%d with %d stored", w.Code, m.len())
		}
		checkStored(t, m)
	})
}
