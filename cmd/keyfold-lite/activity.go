package main

import (
	"fmt"
	"sync"
	"time"
)

// activityEvery is how often a line says what happened since the last one.
const activityEvery = 5 * time.Second

// say tells a person on standard error what the program does; not where answers
// are JSON.
func (a *app) say(format string, args ...any) {
	if !a.JSON {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	}
}

// activity begins to say what happens, if it is shown at all, until stop is called.
func (n *runtime) activity(shown bool) (stop func()) {
	if !shown {
		return func() {}
	}
	ticker := time.NewTicker(activityEvery)
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { n.tell(ticker.C, done) })
	return func() {
		ticker.Stop()
		close(done)
		telling.Wait()
	}
}

// tell says at each tick what happened since the last one, where anything did.
func (n *runtime) tell(tick <-chan time.Time, done <-chan struct{}) {
	for before := n.counts(); ; {
		select {
		case <-tick:
		case <-done:
			return
		}
		now := n.counts()
		news := now.since(before)
		news.Folded = 0 // the writes tell of it
		if line := news.line(); line != "" {
			n.say("%s", line)
		}
		before = now
	}
}
