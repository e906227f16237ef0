package conformance

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	library "github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/stream"
)

func TestMain(m *testing.M) { process.Main(m) }

const messages = 1000

// sides are both clients, on one virtual host.
type sides struct {
	*testing.T
	own  *stream.Conn
	they *library.Environment
}

func onBoth(t *testing.T, test func(s *sides)) {
	for _, major := range []int{3, 4} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			b := rabbittest.SharedStreams(t, major)
			uri := rabbittest.StreamURI(b.StreamAddress(), b.VHost(t))
			s := &sides{T: t}
			var err error
			s.own, err = stream.Dial(t.Context(), stream.Config{URI: uri, Timing: sitetest.Quick})
			s.check(err)
			t.Cleanup(func() { s.own.Close(context.Background()) })
			s.they, err = library.NewEnvironment(library.NewEnvironmentOptions().SetUri(uri))
			s.check(err)
			t.Cleanup(func() { s.they.Close() })
			test(s)
		})
	}
}

func (s *sides) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *sides) await(what string, done <-chan struct{}) {
	s.Helper()
	select {
	case <-done:
	case <-sitetest.Within(s, sitetest.Ample).Done():
		s.Fatalf("%s did not come", what)
	}
}

func body(i int) string { return fmt.Sprintf(`{"message": %d}`, i) }

// headers has some for every other message.
func headers(i int) map[string]any {
	if i%2 == 0 {
		return nil
	}
	return map[string]any{"keyfold-first-seen": int64(i), "keyfold-stream": fmt.Sprint("s@", i)}
}

// The library reads what keyfold has published, one by one and in sub-entries.
func TestTheLibraryReads(t *testing.T) {
	onBoth(t, func(s *sides) {
		for name, publish := range map[string]func(*stream.Publisher, []stream.Numbered) error{
			"entries": (*stream.Publisher).Publish, "sub-entries": (*stream.Publisher).PublishSubEntries,
		} {
			s.check(s.own.Create(s.Context(), name, nil))
			confirmed := make(chan struct{})
			p, err := s.own.DeclarePublisher(s.Context(), stream.Publishing{Stream: name, Reference: "keyfold", Handle: func(o stream.Outcome) {
				if o.Err != nil {
					s.Error(o.Err)
				}
				for _, id := range o.IDs {
					if id == messages {
						close(confirmed)
					}
				}
			}})
			s.check(err)
			var all []stream.Numbered
			for i := range messages {
				m, err := stream.AppendMessage(nil, []byte(body(i)), headers(i))
				s.check(err)
				all = append(all, stream.Numbered{ID: uint64(i + 1), Message: m})
			}
			s.check(publish(p, all))
			s.await("the last confirm", confirmed)
			sequence, err := s.they.QuerySequence("keyfold", name)
			if err != nil || sequence != messages {
				s.Errorf("%s: the sequence is %d, %v", name, sequence, err)
			}
			s.theyRead(name)
		}
	})
}

func (s *sides) theyRead(name string) {
	s.Helper()
	read, done := 0, make(chan struct{})
	c, err := s.they.NewConsumer(name, func(_ library.ConsumerContext, m *amqp.Message) {
		i := read
		read++
		if string(m.GetData()) != body(i) || !maps.Equal(m.ApplicationProperties, headers(i)) {
			s.Errorf("%s: message %d is %q with %v", name, i, m.GetData(), m.ApplicationProperties)
		}
		if read == messages {
			close(done)
		}
	}, library.NewConsumerOptions().SetOffset(library.OffsetSpecification{}.First()).SetCRCCheck(true))
	s.check(err)
	s.await(name, done)
	s.check(c.Close())
}

// keyfold reads what the library has published: one by one, in sub-entries, and in those that
// are compressed as keyfold can read.
func TestKeyfoldReads(t *testing.T) {
	onBoth(t, func(s *sides) {
		for name, options := range map[string]*library.ProducerOptions{
			"entries":     library.NewProducerOptions(),
			"sub-entries": library.NewProducerOptions().SetSubEntrySize(100),
			"gzip":        library.NewProducerOptions().SetSubEntrySize(100).SetCompression(library.Compression{}.Gzip()),
			"zstd":        library.NewProducerOptions().SetSubEntrySize(100).SetCompression(library.Compression{}.Zstd()),
		} {
			s.check(s.they.DeclareStream(name, nil))
			p, err := s.they.NewProducer(name, options)
			s.check(err)
			var batch []message.StreamMessage
			for i := range messages {
				m := amqp.NewMessage([]byte(body(i)))
				m.ApplicationProperties = headers(i)
				m.Properties = &amqp.MessageProperties{MessageID: fmt.Sprint(i), ContentType: "application/json"}
				m.Annotations = amqp.Annotations{"a": "b"}
				batch = append(batch, m)
			}
			s.check(p.BatchSend(batch))
			s.ownReads(name)
			s.check(p.Close())
		}
	})
}

func (s *sides) ownReads(name string) {
	s.Helper()
	read, done := 0, make(chan struct{})
	each := func(offset uint64, m stream.Message) error {
		b, err := m.Body()
		if err != nil {
			return err
		}
		h, err := m.Headers()
		if i := int(offset); i != read || string(b) != body(i) || !maps.Equal(h, headers(i)) {
			s.Errorf("%s: message %d at offset %d is %q with %v", name, read, offset, b, h)
		}
		if read++; read == messages {
			close(done)
		}
		return err
	}
	handle := func(_ context.Context, sub *stream.Subscription, c stream.Chunk) {
		if err := c.Each(each); err != nil {
			s.Error(err)
		}
		if err := sub.Credit(1); err != nil {
			s.Error(err)
		}
	}
	sub, err := s.own.Subscribe(s.Context(), stream.Consume{Stream: name, From: stream.First, Credit: 2, Handle: handle})
	s.check(err)
	s.await(name, done)
	s.check(sub.Unsubscribe(s.Context()))
	<-sub.Done()
}
