package deadletter

import (
	"cmp"
	"maps"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
)

// Replay returns the message that brings the letter's original back to the
// workers: its body, id and priority, on the way events take, with no attempt
// behind it. Its first-seen time goes with it, so that an event whose id may
// have been dropped from its profile is not folded a second time; forced leaves
// that time out. l.Original must not be nil.
func (l *Letter) Replay(names rabbit.Names, forced bool) rabbit.Message {
	return l.ReplayTo(names.Exchange, replayKey(names, l.Kind), forced)
}

// ReplayTo is [Letter.Replay] of an event that is not folded: its application knows
// the routing key.
func (l *Letter) ReplayTo(exchange, key string, forced bool) rabbit.Message {
	headers := amqp.Table{}
	maps.Copy(headers, l.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return isMark(name) })
	headers[rabbit.HeaderAttempts] = int64(0)
	if first := l.firstSeen(); first > 0 && !forced {
		headers[rabbit.HeaderFirstSeen] = int64(first)
	}
	m := l.message.Message
	m.Exchange, m.RoutingKey, m.Headers, m.Body = exchange, key, headers, l.Original
	return m
}

// isMark reports whether a header tells of a failure, the broker's or ours, and
// not of the event.
func isMark(name string) bool {
	switch name {
	case rabbit.HeaderReason, rabbit.HeaderFirstExchange, headerTimestamp:
		return true
	}
	return rabbit.IsBrokerHeader(name) || strings.HasPrefix(name, "keyfold-")
}

// firstSeen falls back on the first failure: an event that failed was seen
// before. When one that the broker gave up was delivered first is not known, and
// each delivery may have been folded: it counts as older than all.
func (l *Letter) firstSeen() engine.Millis {
	failed := engine.Millis(0)
	if l.GivenUp {
		failed = 1
	} else if !l.FirstFailure.IsZero() {
		failed = max(0, engine.MillisOf(l.FirstFailure))
	}
	return cmp.Or(l.FirstSeen, failed)
}

// replayKey returns the routing key of a type. The workers' queue takes any last
// word, so that an event whose type cannot be read finds its way too.
func replayKey(names rabbit.Names, eventType string) string {
	if t := profile.ParseEventType(eventType); t != 0 {
		return names.RoutingKey(t)
	}
	return "user.embedding.unknown"
}
