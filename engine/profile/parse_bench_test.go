package profile

import (
	"encoding/json"
	"testing"
	"time"

	"keyfold/engine"
)

var benchNow = time.Date(2026, 2, 10, 15, 0, 0, 0, time.UTC)

// Typical bodies, as PHP's json_encode writes them.
var benchBodies = []struct{ name, body string }{
	{"product", `{"user_id":12345,"event_type":"product_purchase","search_phrase":null,"product_id":789,` +
		`"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile","channel":"app","session":"9f1c2d7e4b",` +
		`"price":129.9,"quantity":2},"message_id":"2f0e7a4c1b9d8e6f5a3c2b1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f","version":"1.0"}`},
	{"search", `{"user_id":12345,"event_type":"search","search_phrase":"waterproof hiking boots","product_id":null,` +
		`"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile","channel":"app","session":"9f1c2d7e4b"},` +
		`"message_id":"2f0e7a4c1b9d8e6f5a3c2b1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f","version":"1.0"}`},
	{"escaped_search", `{"user_id":12345,"event_type":"search","search_phrase":"\u0431\u043e\u0442\u0438\u043d\u043a\u0438 42",` +
		`"product_id":null,"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile","page":"https:\/\/shop.example\/s"},` +
		`"message_id":"2f0e7a4c1b9d8e6f5a3c2b1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f","version":"1.0"}`},
	{"without_message_id", `{"user_id":12345,"event_type":"product_view","product_id":789,` +
		`"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile"}}`},
}

func BenchmarkParseEvent(b *testing.B) {
	for _, bc := range benchBodies {
		b.Run(bc.name, func(b *testing.B) {
			body := []byte(bc.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseEvent(body, benchNow); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParseStrictly is what the reading costs of a body whose shape is unusual, and what
// that of the usual one is measured by.
func BenchmarkParseStrictly(b *testing.B) {
	for _, bc := range benchBodies {
		b.Run(bc.name, func(b *testing.B) {
			body := []byte(bc.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseStrictly(body, engine.MillisOf(benchNow)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOutline is what it costs to have a body again that is not kept: to take its
// outline, and, for the few, to make it of that.
func BenchmarkOutline(b *testing.B) {
	body := []byte(benchBodies[0].body)
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		var room []byte
		for b.Loop() {
			_, o, err := ParseEventOutlined(body, benchNow, room)
			if err != nil {
				b.Fatal(err)
			}
			room = o.Outline
		}
	})
	b.Run("body", func(b *testing.B) {
		e, o, _ := ParseEventOutlined(body, benchNow, nil)
		outline, occurredAt := Outline(o.Outline), string(o.OccurredAt)
		b.ReportAllocs()
		for b.Loop() {
			outline.AppendBody(nil, &e, occurredAt)
		}
	})
}

// BenchmarkEncodingJSON is the measure beside it: the standard decoder with none
// of the checks, and the digest.
func BenchmarkEncodingJSON(b *testing.B) {
	for _, bc := range benchBodies {
		b.Run(bc.name, func(b *testing.B) {
			body := []byte(bc.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var m struct {
					UserID     int32           `json:"user_id"`
					EventType  string          `json:"event_type"`
					Phrase     *string         `json:"search_phrase"`
					ProductID  *int32          `json:"product_id"`
					OccurredAt time.Time       `json:"occurred_at"`
					Metadata   json.RawMessage `json:"metadata"`
					MessageID  string          `json:"message_id"`
					Version    string          `json:"version"`
				}
				if err := json.Unmarshal(body, &m); err != nil {
					b.Fatal(err)
				}
				DigestOf(m.MessageID)
			}
		})
	}
}

func BenchmarkDigestOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		DigestOf("2f0e7a4c1b9d8e6f5a3c2b1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f")
	}
}

// BenchmarkParseManyKeys is the worst a sender can do with keys: 64 KiB of them
// in one object.
func BenchmarkParseManyKeys(b *testing.B) {
	body := []byte(message("metadata", object(8_000, `"":1`)))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseEvent(body, benchNow); err != nil {
			b.Fatal(err)
		}
	}
}
