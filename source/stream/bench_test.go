package stream

import (
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"
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

// BenchmarkDrain reads a stream of RabbitMQ 4, messages of 250 bytes in sub-entries or each
// on its own. The time has the broker's part of it; the processor time of this process
// alone is cpu-ns/message.
func BenchmarkDrain(b *testing.B) {
	const n = 200_000
	for name, publish := range map[string]func(*Publisher, []Numbered) error{"entries": (*Publisher).Publish, "sub-entries": (*Publisher).PublishSubEntries} {
		b.Run(name, func(b *testing.B) {
			s := newSite(b)
			stream := s.create(nil)
			o := s.publisher(stream, "")
			message, err := AppendMessage(nil, make([]byte, 250), nil)
			s.check(err)
			for first := 0; first < n; first += 1000 {
				batch := make([]Numbered, 1000)
				for i := range batch {
					batch[i] = Numbered{ID: uint64(first + i), Message: message}
				}
				s.check(publish(o.Publisher, batch))
				o.await(uint64(first + 999))
			}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				drain(s, stream, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N*n), "cpu-ns/message")
		})
	}
}

func drain(s *site, stream string, n int) {
	done := make(chan struct{})
	read := 0
	each := func(_ uint64, m Message) error {
		_, err := m.Body()
		read++
		return err
	}
	sub, err := s.Subscribe(s.ctx(), Consume{Stream: stream, From: First, Credit: 4, Handle: func(_ context.Context, sub *Subscription, c Chunk) {
		s.check(c.Each(each))
		s.check(sub.Credit(1))
		if read == n {
			close(done)
		}
	}})
	s.check(err)
	<-done
	s.check(sub.Unsubscribe(s.ctx()))
}

func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
