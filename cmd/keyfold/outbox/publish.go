package outbox

import (
	"context"
	"errors"
	"slices"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/tracing"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
	"keyfold/source/stream/writer"
)

// publishing is a relay with its connection to the broker: to streams where RABBITMQ_STREAMS
// is set, and otherwise to an exchange.
type publishing struct {
	relay    *outbox.Relay
	ready    func() error // an alarm of the broker, before the relay has waited in vain
	register func(*metric.Set)
	close    func(context.Context) error
}

// publishingOf returns a relay whose connection has the name of who and purpose.
func publishingOf(a *app.App, db *outbox.Database, who rabbit.Identity, purpose string, to toBroker, config outbox.RelayConfig) publishing {
	if a.Queues.Streams > 0 {
		client := stream.Config{URI: a.StreamsURI(), Name: who.Connection(purpose)}
		w := writer.New(writer.Config{Client: client, Names: rabbit.DefaultNames()}, a.Log)
		return publishing{outbox.NewStreamRelay(db, toStreams{to, w}, config, a.Log), w.Silent, w.Register, w.Close}
	}
	p := rabbit.NewPublisher(a.Servers.RabbitMQ, who, purpose, rabbit.Timing{}, a.Log)
	to.publisher, to.message = p, a.Queues.Message()
	return publishing{outbox.NewRelay(db, to, config, a.Log), p.Stats.Alarm, p.Register, p.Close}
}

// toBroker publishes stored rows as the events they are.
type toBroker struct {
	publisher *rabbit.Publisher
	tracing   *tracing.Tracing
	message   func(body []byte, event *profile.Event) rabbit.Message
	// backfill marks rows as seen when they were stored (long ago, where a shop's row does not
	// tell), or tried before that by a wrong created_at: whether their ids have been dropped from a profile since can be told then.
	// A relay marks only those that may have been published before.
	backfill bool
}

// Publish answers in the outbox's words.
func (b toBroker) Publish(ctx context.Context, rows []outbox.Row) []error {
	traces, published := b.tracing.Published(ctx, rows)
	messages := make([]rabbit.Message, len(rows))
	for i := range rows {
		messages[i] = b.message(rows[i].Body, &rows[i].Event)
		messages[i].Headers = headersOf(traces[i], b.since(&rows[i]))
	}
	errs := b.publisher.Publish(ctx, messages)
	published(errs)
	return errs
}

// toStreams publishes stored rows to streams.
type toStreams struct {
	toBroker
	writer *writer.Writer
}

// Last implements [outbox.Streams].
func (s toStreams) Last(ctx context.Context, shard int, reference string) (string, int64, error) {
	name, number, err := s.writer.Last(ctx, shard, reference)
	return name, int64(number), err
}

// PublishGroups implements [outbox.Streams].
func (s toStreams) PublishGroups(ctx context.Context, groups []outbox.Group) []error {
	var rows []outbox.Row
	for i := range groups {
		rows = append(rows, groups[i].Rows...)
	}
	traces, published := s.tracing.Published(ctx, rows)
	sent := make([]writer.Group, len(groups))
	errs := make([]error, len(groups))
	for i := range groups {
		g := &groups[i]
		sent[i] = writer.Group{Stream: g.Stream, Reference: g.Reference, Number: uint64(g.Number)}
		for k := range g.Rows {
			message, err := stream.AppendMessage(nil, g.Rows[k].Body, headersOf(traces[k], s.since(&g.Rows[k])))
			errs[i] = errors.Join(errs[i], err)
			sent[i].Messages = append(sent[i].Messages, message)
		}
		traces = traces[len(g.Rows):]
	}
	if err := errors.Join(errs...); err != nil {
		return errs // no header has another type than a message carries
	}
	errs = s.writer.Publish(ctx, sent)
	published(perRow(groups, errs))
	return errs
}

// perRow repeats each group's answer for its rows.
func perRow(groups []outbox.Group, errs []error) (all []error) {
	for i := range groups {
		all = append(all, slices.Repeat(errs[i:i+1], len(groups[i].Rows))...)
	}
	return all
}

// since is from when on there may be an earlier copy of the row; 0 where there is none.
func (b toBroker) since(row *outbox.Row) engine.Millis {
	if b.backfill && (row.TriedAt == 0 || row.StoredAt < row.TriedAt) {
		return max(row.StoredAt, 1)
	}
	return row.TriedAt
}

// headersOf returns what a message says of its event; nil where that is nothing.
func headersOf(trace *engine.Trace, since engine.Millis) map[string]any {
	if trace == nil && since == 0 {
		return nil
	}
	headers := map[string]any{}
	for name, value := range trace.Headers() {
		headers[name] = value
	}
	if since != 0 {
		headers[rabbit.HeaderFirstSeen] = int64(since)
	}
	return headers
}
