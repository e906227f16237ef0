package deadletter

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

func TestMain(m *testing.M) { process.Main(m) }

// site is a virtual host with keyfold's topology.
type site struct {
	t      testing.TB
	broker *rabbittest.Broker
	vhost  string
	dsn    string
	names  rabbit.Names
}

func newSite(t testing.TB, b *rabbittest.Broker, kind topology.QueueType) *site {
	t.Helper()
	vhost := b.VHost(t)
	s := &site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: rabbit.DefaultNames()}
	must.OK(t, topology.Setup(t.Context(), s.dsn, topology.Config{Names: s.names, QueueType: kind}))
	return s
}

func shared(t testing.TB) *site { return newSite(t, rabbittest.Own(t), topology.Classic) }

func (s *site) publish(messages ...rabbit.Message) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	defer cancel()
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	for i, err := range p.Publish(ctx, messages) {
		if err != nil {
			s.t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := p.Close(ctx); err != nil {
		s.t.Error(err)
	}
}

// depth returns how many messages of a queue are ready.
func (s *site) depth(queue string) int {
	s.t.Helper()
	n, err := rabbit.Depth(s.t.Context(), s.dsn, queue)
	must.OK(s.t, err)
	return n
}

// ample is time enough for what takes none but on a machine that is busy
// elsewhere: it only bounds a failure.
const ample = 2 * time.Minute
