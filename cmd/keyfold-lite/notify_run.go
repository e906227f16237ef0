package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// notifyRunCmd decides a file of notifications, or a sample week.
type notifyRunCmd struct {
	Events  string        `name:"events" placeholder:"FILE" help:"NDJSON notifications, plain or gzip; - for stdin."`
	Rules   string        `name:"rules" placeholder:"FILE" help:"The set of rules; without it, the shipped one."`
	Users   string        `name:"users" placeholder:"FILE" help:"NDJSON preferences of users to store first."`
	Sample  int           `name:"sample" default:"500" placeholder:"N" help:"Users of the sample week."`
	Strict  bool          `name:"strict" help:"Exit with 1 if a line was refused."`
	Senders senders       `embed:""`
	Local   ruleset.Hours `embed:""`
}

// Help is the long text.
func (c *notifyRunCmd) Help() string {
	return `Each notification is decided NOW (send it), LATER (decide it again at a given time) or NEVER, at the instant
of its timestamp. When the file has ended, what waits is decided too, each at its time. Decisions are kept in
notify.db of the data folder: a second run of the same file decides nothing, and a run that was stopped goes on.

Examples:
  keyfold-lite notify                                      a sample week of 500 users
  keyfold-lite notify --events FILE.ndjson --send-to OUT.ndjson
  keyfold-lite notify --events FILE.ndjson --rules RULES.json --users USERS.ndjson
  keyfold-lite notify explain ID`
}

// Check refuses what cannot be run.
func (c *notifyRunCmd) Check(*app) error {
	_, err := c.Local.Local()
	if c.Events == "" && c.Users != "" {
		err = errors.Join(err, errors.New("--users without --events: the sample brings its own users"))
	}
	if c.Sample < 10 || c.Sample > 100_000 {
		err = errors.Join(err, fmt.Errorf("--sample %d: it must be between 10 and 100000 users", c.Sample))
	}
	if c.Events == "-" && c.Users == "-" {
		err = errors.Join(err, errors.New("--events and --users are both standard input: name a file for one of them"))
	}
	if sameFile(c.Events, c.Senders.SendTo) {
		err = errors.Join(err, errors.New("--events and --send-to name one file: name another one for what is sent"))
	}
	return errors.Join(err, c.Senders.check())
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// posts are the notifications of a run, and those who get them.
type posts struct {
	name  string
	next  func() ([]byte, error) // io.EOF at the end
	line  func() int64
	users []preference.User
	bar   *cli.Progress
	close func() error
}

// Run decides.
func (c *notifyRunCmd) Run(a *app) (err error) {
	set, err := c.Local.Set(c.Rules)
	if err != nil {
		return err
	}
	in, err := c.open(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	n, err := openNotify(a, set, c.Senders, nil, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	if c.Events == "" {
		if err := c.sample(n, in); err != nil {
			return err
		}
	}
	began := time.Now()
	r := notifyReplay{notifyRuntime: n, posts: in}
	err = r.run(a.ctx)
	in.bar.Done()
	if err != nil {
		return err
	}
	if a.ctx.Err() != nil {
		return errors.New("interrupted: what was decided is kept; run the same command again to go on")
	}
	s, err := r.summary(time.Since(began))
	if err != nil {
		return err
	}
	if err := s.emit(a, c); err != nil {
		return err
	}
	if c.Strict && s.Refused > 0 {
		return fmt.Errorf("--strict: %s refused", cli.Count(s.Refused, "line"))
	}
	return nil
}

// open opens the file that the command line names. The sample is made later: its
// week follows from what was decided before.
func (c *notifyRunCmd) open(a *app) (*posts, error) {
	if c.Events == "" {
		a.say("making a sample week of notifications for %s of a shop, and deciding it into %s", cli.Count(int64(c.Sample), "user"), a.data)
		return &posts{name: "the sample week", line: func() int64 { return 0 }, close: func() error { return nil }, bar: &cli.Progress{}}, nil
	}
	if c.Events == "-" {
		a.say("deciding standard input into %s", a.data)
	}
	var users []preference.User
	if c.Users != "" {
		var err error
		if users, err = readUsers(c.Users, a); err != nil {
			return nil, err
		}
	}
	in, err := cli.OpenInput(c.Events, a.Stdin)
	if err != nil {
		return nil, err
	}
	if c.Events != "-" {
		a.say("deciding %s into %s", c.Events, a.data)
	}
	return &posts{
		name: in.Name, next: in.Next, line: func() int64 { return in.Line }, users: users, close: in.Close,
		bar: a.Progress("deciding "+in.Name, in.Size, in.Read),
	}, nil
}

// parseLine reads one notification of a file.
func parseLine(body []byte) (*notify.Notification, error) { return notify.Parse(body, engine.Now()) }
