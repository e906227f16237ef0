package stream

import (
	"bytes"
	"testing"
)

// benchmarkChunk reads chunks of 1,000 messages of 250 bytes.
func benchmarkChunk(b *testing.B, kind func(entries [][]byte) []byte) {
	const n = 1000
	var entries [][]byte
	for range n {
		entries = append(entries, entry(string(make([]byte, 250)), nil))
	}
	raw := kind(entries)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	var read int
	for b.Loop() {
		c, err := parseChunk("s", raw)
		if err != nil {
			b.Fatal(err)
		}
		err = c.Each(func(_ uint64, m Message) error {
			body, err := m.Body()
			read += len(body)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
}

func BenchmarkChunk(b *testing.B) {
	b.Run("entries", func(b *testing.B) {
		benchmarkChunk(b, func(e [][]byte) []byte { return made(0, userChunk, len(e), e...) })
	})
	b.Run("sub-entries", func(b *testing.B) {
		benchmarkChunk(b, func(e [][]byte) []byte {
			var all [][]byte
			for i := 0; i < len(e); i += MaxSubEntry {
				content := bytes.Join(e[i:i+MaxSubEntry], nil)
				all = append(all, subEntryOf(uncompressed, MaxSubEntry, len(content), content))
			}
			return made(0, userChunk, len(e), all...)
		})
	})
	b.Run("zstd", func(b *testing.B) {
		benchmarkChunk(b, func(e [][]byte) []byte {
			content := bytes.Join(e, nil)
			return made(0, userChunk, len(e), subEntryOf(zstandard, len(e), len(content), zstdOf(content)))
		})
	})
}

func BenchmarkAppendMessage(b *testing.B) {
	body := make([]byte, 250)
	for name, headers := range map[string]map[string]any{"plain": nil, "headers": {"keyfold-first-seen": int64(1), "keyfold-stream": "user_event_streams.1-3@17"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buffer []byte
			for b.Loop() {
				var err error
				if buffer, err = AppendMessage(buffer[:0], body, headers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A chunk of entries and sub-entries without compression is read without an allocation.
func TestChunkIsReadInPlace(t *testing.T) {
	for _, name := range []string{"entries", "sub-entry"} {
		c, err := parseChunk("s", samples()[name])
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		f := func(_ uint64, m Message) error {
			body, err := m.Body()
			read += len(body)
			return err
		}
		if n := testing.AllocsPerRun(100, func() {
			if err := c.Each(f); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
