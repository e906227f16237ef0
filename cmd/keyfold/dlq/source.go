package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// Source is an application's dead letters. Fields of it are flags of each command.
type Source interface {
	// Queue returns the names of the queue whose dead letters they are.
	Queue() rabbit.Names
	// Describe reads what a letter is known by; nil: [deadletter.Scan]'s own.
	Describe() rabbit.Describe
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
}

// Cmd looks after the dead letters of events that are folded.
type Cmd = Of[events, replayed]

// events are the dead letters of events that are folded.
type events struct{}

func (events) Queue() rabbit.Names       { return rabbit.DefaultNames() }
func (events) Describe() rabbit.Describe { return nil }

func (events) ReadUser(text string) (string, error) {
	var user cli.UserID
	if err := user.UnmarshalText([]byte(text)); err != nil {
		return "", fmt.Errorf("--user: %w", err)
	}
	return strconv.Itoa(int(user)), nil
}

func (events) Texts() Texts {
	return Texts{Command: "keyfold dlq", User: "17", Type: "product_view", Twice: "an event that went out twice is folded once"}
}

// replayed are those letters on their way back.
type replayed struct {
	events
	Force bool `help:"Also fold events with the reason past_horizon. RISK: their ids may have been dropped from the profile, so an event that was folded before is folded a second time. Use it only for events that were never folded."`
}

func (r replayed) Horizon() (known, forced bool) { return true, r.Force }

func (r replayed) Refused(l *deadletter.Letter) error {
	_, err := engine.ParseEvent(l.Original, time.Now())
	return err
}

func (r replayed) Publish(ctx context.Context, a *app.App, p *rabbit.Publisher, letters []*deadletter.Letter) []error {
	messages := make([]rabbit.Message, len(letters))
	for i, l := range letters {
		messages[i] = r.message(a, l)
	}
	return p.Publish(ctx, messages)
}

// message goes by the user's slot where there are partitions. An original that cannot be
// read has no slot: it goes the way of publishers that know none.
func (r replayed) message(a *app.App, l *deadletter.Letter) rabbit.Message {
	names := r.Queue()
	if e, err := engine.ParseEvent(l.Original, time.Now()); err == nil && a.Queues.Partitions > 0 {
		return l.ReplayTo(names.Slots, names.SlotKey(engine.SlotOf(e.UserID)), r.Force)
	}
	return l.Replay(names, r.Force)
}

// UserName reads the id of a user who has a name, in the flag --user.
func UserName(text string) (string, error) {
	if text == "" {
		return "", errors.New("--user is empty: give an id, or leave the flag out")
	}
	return text, nil
}
