package consume_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

// note is the event of an application that is not keyfold's first: its users have
// names.
type note struct {
	ID    string `json:"id"`
	To    string `json:"to"`
	Topic string `json:"topic"`
}

var noteNames = rabbit.Names{
	Exchange: "notes", Queue: "notes_in", DeadLetters: "notes_failed",
	Bindings: []string{"note.urgent", "note.bulk.*"},
}

func describeNote(o *rabbit.Original) consume.Subject {
	var n note
	_ = json.Unmarshal(o.Body, &n)
	return consume.Subject{ID: n.ID, User: n.To, Kind: n.Topic}
}

// noteTaken is a note with its arrival.
type noteTaken struct {
	note
	consume.Arrival
}

// notes is the application: it fails what is on the topic "again" once, and what is
// on "spent" always.
type notes struct {
	mu    sync.Mutex
	taken map[string][]noteTaken
}

func (n *notes) chunk() consume.Chunk { return &noteChunk{to: n} }

func (n *notes) times(id string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.taken[id])
}

func (n *notes) settle(taken noteTaken) {
	n.mu.Lock()
	n.taken[taken.ID] = append(n.taken[taken.ID], taken)
	n.mu.Unlock()
	v := engine.Verdict{Outcome: engine.Decided}
	switch {
	case taken.Topic == "dead":
		v = engine.Verdict{Outcome: engine.Dead, Reason: "no_address", Err: errors.New("no address")}
	case taken.Topic == "spent", taken.Topic == "again" && taken.Attempt == 1:
		v = engine.Verdict{Outcome: engine.Retry, Err: errors.New("503")}
	}
	taken.Settler.Settle(v)
}

type noteChunk struct {
	to  *notes
	all []noteTaken
}

func (c *noteChunk) Add(o *rabbit.Original, a consume.Arrival) error {
	var n note
	if err := json.Unmarshal(o.Body, &n); err != nil {
		return err
	}
	if n.ID == "" {
		return engine.PermanentError("not_a_note", errors.New("expected an id"))
	}
	c.all = append(c.all, noteTaken{n, a})
	return nil
}

func (c *noteChunk) Len() int { return len(c.all) }

func (c *noteChunk) HandOver(context.Context) error {
	for _, taken := range c.all {
		c.to.settle(taken)
	}
	c.all = c.all[:0]
	return nil
}

func noteMessage(id, to, topic, key string) rabbit.Message {
	body, _ := json.Marshal(note{id, to, topic}) // strings cannot fail to encode
	return rabbit.Message{Exchange: noteNames.Exchange, RoutingKey: key, ID: id, Body: body}
}

// Another application consumes, acknowledges, retries through a delay queue and
// dead-letters under its own names, with events and users of its own form.
func TestSecondApplication(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	dsn, who := broker.DSN(broker.VHost(t)), rabbit.ThisProcess("test")
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	declared := topology.Config{Names: noteNames, QueueType: topology.Quorum, RetryDelays: rabbit.RetryDelays(20*time.Millisecond, 1)}
	must.OK(t, topology.Setup(t.Context(), dsn, declared))
	publisher := rabbit.NewPublisher(dsn, who, "publisher", rabbit.Timing{}, log)
	delays := consume.NewDelayQueues(dsn, noteNames, who, rabbit.Timing{}, log)
	consumer, err := consume.New(consume.Config{
		DSN: dsn, Names: noteNames, Identity: who, QueueType: topology.Quorum, Describe: describeNote,
		Prefetch: 100, MaxRetries: 1, RetryDelay: 20 * time.Millisecond,
	}, consume.Ports{
		DeadLetters: deadletter.Queue{Publisher: publisher, Names: noteNames, Describe: describeNote},
		Retries:     delays, Log: log,
	})
	must.OK(t, err)
	app := &notes{taken: map[string][]noteTaken{}}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- consumer.Run(ctx, app.chunk) }()

	nameless := noteMessage("again", "anna", "again", "note.bulk.news")
	nameless.ID = "" // its copy gets the note's
	bad := noteMessage("", "bert", "news", "note.urgent")
	publish(t, publisher, noteMessage("good", "anna", "news", "note.urgent"), nameless, bad,
		noteMessage("dead", "carl", "dead", "note.urgent"), noteMessage("spent", "7", "spent", "note.bulk.x"))
	// Five came, two of them once more.
	must.Hold(t, "all are acknowledged", func() bool { return consumer.Stats.Acked.Load() == 7 })
	letters := lettersOf(t, dsn)
	for id, want := range map[string]struct {
		user, kind, reason string
	}{
		"dead": {"carl", "dead", "no_address"}, "spent": {"7", "spent", engine.ReasonRetriesExhausted}, "bad": {"bert", "news", "not_a_note"},
	} {
		l := letters[id]
		if l == nil || l.User != want.user || l.Kind != want.kind || l.Reason != want.reason {
			t.Errorf("letter %s: %+v", id, l)
		}
	}
	if len(letters) != 3 || app.times("good") != 1 || app.times("again") != 2 || app.times("spent") != 2 {
		t.Errorf("%d letters; %v", len(letters), app.taken)
	}
	if again := app.taken["again"]; len(again) == 2 && (again[0].Redelivered || again[1].FirstSeen == 0 || !again[1].Last || !again[1].Redelivered || again[1].Bytes <= 0) {
		t.Errorf("the second attempt arrived as %+v", again[1].Arrival)
	}
	if n := delays.Stats.Replaced.Load(); n != 2 {
		t.Errorf("%d attempts waited in a delay queue", n)
	}
	publish(t, publisher, letters["dead"].ReplayTo(noteNames.Exchange, "note.urgent", false))
	must.Hold(t, "the replayed note came", func() bool { return app.times("dead") == 2 })

	stop()
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(<-ran, consumer.Close(closing), delays.Close(closing), publisher.Close(closing)); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"user_id=7 message_id=spent event_type=spent", "user_id=bert"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in %s", part, &out)
		}
	}
}

func publish(t *testing.T, p *rabbit.Publisher, messages ...rabbit.Message) {
	t.Helper()
	for i, err := range p.Publish(t.Context(), messages) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// lettersOf returns the letters by id; "bad" is the one that has none of its own.
func lettersOf(t *testing.T, dsn string) map[string]*deadletter.Letter {
	t.Helper()
	scan, err := deadletter.Open(t.Context(), dsn, noteNames)
	must.OK(t, err)
	scan.Describe = describeNote
	letters := map[string]*deadletter.Letter{}
	for l, err := range scan.Letters(t.Context()) {
		must.OK(t, err)
		id := l.ID
		if strings.HasPrefix(id, deadletter.DigestPrefix) {
			id = "bad"
		}
		letters[id] = l
	}
	must.OK(t, scan.Close())
	return letters
}
