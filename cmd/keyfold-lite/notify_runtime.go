package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"keyfold/service/notify/link"
	"keyfold/service/notify/notifier"
	"keyfold/service/notify/ruleset"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/sink/ledger/sqlite"

	"keyfold/sink/senders/message"
	"keyfold/sink/senders/ndjson"
	"keyfold/sink/senders/webhook"
)

// senders are the flags that say where NOWs go.
type senders struct {
	SendTo  string `name:"send-to" placeholder:"FILE" help:"Append each notification that is sent to this file, a line of JSON each."`
	Webhook string `name:"webhook" placeholder:"URL" help:"POST each notification that is sent to this address."`
}

func (s *senders) check() error {
	switch {
	case s.SendTo != "" && s.Webhook != "":
		return errors.New("--send-to and --webhook exclude each other: give one of them")
	case s.Webhook != "":
		return webhook.DefaultConfig(s.Webhook).Validate()
	}
	return nil
}

// dispatcher is where NOWs go, and what ends it.
type dispatcher interface {
	notify.Dispatcher
	io.Closer
}

// open opens the senders. links are those of the messages; nil: they have none.
func (s *senders) open(links *link.Links) (dispatcher, error) {
	var linker message.Linker
	if links != nil { // a nil pointer in the interface would be asked
		linker = links
	}
	switch {
	case s.SendTo != "":
		file, err := ndjson.Open(s.SendTo)
		if err != nil {
			err = fmt.Errorf("--send-to: %w (name a file in a folder that exists, with room on its disk)", err)
		}
		if err == nil {
			file.Links = linker
		}
		return opened(file, err)
	case s.Webhook != "":
		hook, err := webhook.New(webhook.DefaultConfig(s.Webhook))
		if err == nil {
			hook.Links = linker
		}
		return opened(hook, err)
	default:
		return nowhere{}, nil
	}
}

// opened returns nil with an error: a nil pointer in the interface would be closed.
func opened[D dispatcher](d D, err error) (dispatcher, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// nowhere confirms what it drops: decisions are made, and nothing is sent.
type nowhere struct{}

// Send implements [notify.Dispatcher].
func (nowhere) Send(_ context.Context, d []notify.Dispatch) []error { return make([]error, len(d)) }

// Close implements [io.Closer].
func (nowhere) Close() error { return nil }

// notifyRuntime is a running decider of notifications: the ledger, the senders and
// the notifier that joins them.
type notifyRuntime struct {
	*app
	unlock   func()
	ledger   *sqlite.Ledger
	out      dispatcher
	sets     ruleset.Fixed
	notifier *notifier.Notifier
	failed   context.Context
	fail     context.CancelCauseFunc
}

// openNotify opens the data folder. A replay decides on the events' own clock.
func openNotify(a *app, set *notify.Set, to senders, links *link.Links, replay bool) (*notifyRuntime, error) {
	if err := os.MkdirAll(a.data, 0o750); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(a.data)
	if err != nil {
		return nil, err
	}
	n := &notifyRuntime{app: a, unlock: unlock}
	n.failed, n.fail = context.WithCancelCause(context.WithoutCancel(a.ctx))
	if err := n.open(set, to, links, replay); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *notifyRuntime) open(set *notify.Set, to senders, links *link.Links, replay bool) (err error) {
	n.sets = ruleset.Fixed{Set: set}
	if n.ledger, err = sqlite.Open(filepath.Join(n.data, ledgerName)); err != nil {
		return err
	}
	if n.out, err = to.open(links); err != nil {
		return err
	}
	config := notifier.DefaultConfig()
	config.Processor.Replay = replay
	config.Shard.Shards, config.Shard.MaxHeld, config.Shard.MaxHeldBytes = n.config.Shard.Shards, n.config.Shard.MaxHeld, n.config.Shard.MaxHeldBytes
	config.Shard.Flushes = n.config.Shard.Flushes
	n.notifier, err = notifier.New(config, processor.Ports{
		Ledger: n.ledger, Dispatcher: n.out, Sets: n.sets, Log: n.log,
	})
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-n.notifier.Router.Failed():
			n.fail(n.notifier.Router.Err())
		case <-n.failed.Done(): // it is closed
		}
	}()
	return nil
}

// stop decides what was submitted, within the time of a shutdown.
func (n *notifyRuntime) stop() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), n.config.Timeout)
	defer cancel()
	return errors.Join(context.Cause(n.failed), n.notifier.Stop(ctx))
}

// close closes the ledger and unlocks the folder.
func (n *notifyRuntime) close() (err error) {
	defer n.unlock()
	n.fail(nil)
	if n.notifier != nil { // where it was stopped, this does nothing
		ctx, cancel := context.WithCancel(context.WithoutCancel(n.ctx))
		cancel()
		_ = n.notifier.Router.Drain(ctx)
	}
	if n.out != nil {
		err = n.out.Close()
	}
	if n.ledger != nil {
		err = errors.Join(err, n.ledger.Close())
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", n.data, err)
	}
	return nil
}
