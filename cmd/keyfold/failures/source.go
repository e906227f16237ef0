package failures

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
)

// Source is an application's failures. Fields of it are flags of each command.
type Source interface {
	// Where returns the place of the failure of an id, or of all for "".
	Where(id string) string
	// Queue returns the names of the queue whose dead letters those in the broker are.
	Queue() rabbit.Names
	// Describe reads what a letter is known by; nil: [deadletter.Scan]'s own.
	Describe() consume.Describe
	// ReadUser returns the id of a user as letters have it, for the text of a flag.
	ReadUser(text string) (string, error)
	// Texts are what help and answers say of it.
	Texts() Texts
}

// Replay is a [Source] whose letters can be replayed. Fields beside the source's are
// flags of that command.
type Replay interface {
	Source
	// Refused returns why a worker would refuse the original again, nil where it
	// would take it.
	Refused(*deadletter.Letter) error
	// Publish brings the originals back to the workers, as [rabbit.Publisher.Publish] does.
	Publish(context.Context, *app.App, *rabbit.Publisher, []*deadletter.Letter) []error
	// Horizon reports whether there are letters of the reason past_horizon, and whether
	// they are folded too.
	Horizon() (known, forced bool)
}

// Texts are words of one application.
type Texts struct {
	Command string // that has the commands
	User    string // an example
	Type    string // an example
	Twice   string // what becomes of an event that went out twice
	Several bool   // failures are in several places: in SQL too
}

// InBroker is the part of a [Source] whose failures are dead letters alone.
type InBroker struct{}

// Where implements [Source].
func (InBroker) Where(string) string { return inBroker }

// events are the dead letters of events that are folded.
type events struct{ InBroker }

func (events) Queue() rabbit.Names        { return rabbit.DefaultNames() }
func (events) Describe() consume.Describe { return nil }

func (events) ReadUser(text string) (string, error) {
	var user cli.UserID
	if err := user.UnmarshalText([]byte(text)); err != nil {
		return "", fmt.Errorf("--user: %w", err)
	}
	return strconv.Itoa(int(user)), nil
}

func (events) Texts() Texts {
	return Texts{Command: "keyfold failed", User: "17", Type: "product_view", Twice: "an event that went out twice is folded once"}
}

// everywhere are those dead letters, and the rows that were set aside.
type everywhere struct {
	events
	In string `enum:"all,broker,sql" default:"all" help:"Where to look: sql (rows that could not be published), broker (dead letters), or all."`
}

func (e everywhere) Where(id string) string {
	if _, row := rowID(id); row {
		return inSQL
	}
	if id != "" {
		return inBroker
	}
	return e.In
}

func (e everywhere) Texts() Texts {
	t := e.events.Texts()
	t.Several = true
	return t
}

var (
	_ Source = everywhere{}
	_ Replay = retried{}
)

// replayed and retried are failures on their way back.
type replayed struct {
	events
	publishing
}

type retried struct {
	everywhere
	publishing
}

// publishing publishes letters of events that are folded again.
type publishing struct {
	Force bool `help:"Also fold events with the reason past_horizon. RISK: their ids may have been dropped from the profile, so an event that was folded before is folded a second time. Use it only for events that were never folded."`
}

func (p publishing) Horizon() (known, forced bool) { return true, p.Force }

func (publishing) Refused(l *deadletter.Letter) error {
	_, err := profile.ParseEvent(l.Original, time.Now())
	return err
}

func (p publishing) Publish(ctx context.Context, a *app.App, to *rabbit.Publisher, letters []*deadletter.Letter) []error {
	messages := make([]rabbit.Message, len(letters))
	for i, l := range letters {
		messages[i] = p.message(a, l)
	}
	return to.Publish(ctx, messages)
}

// message goes by the user's slot where there are partitions. An original that cannot be
// read has no slot: it goes the way of publishers that know none.
func (p publishing) message(a *app.App, l *deadletter.Letter) rabbit.Message {
	names := rabbit.DefaultNames()
	if e, err := profile.ParseEvent(l.Original, time.Now()); err == nil && a.Queues.Partitions > 0 {
		return l.ReplayTo(names.Slots, names.SlotKey(engine.SlotOf(e.UserID)), p.Force)
	}
	return l.Replay(names, p.Force)
}

// UserName reads the id of a user who has a name, in the flag --user.
func UserName(text string) (string, error) {
	if text == "" {
		return "", errors.New("--user is empty: give an id, or leave the flag out")
	}
	return text, nil
}
