package main

import (
	"fmt"
	"slices"
	"time"

	"keyfold/engine/profile"
	"keyfold/source/rabbit"
)

// delays are how long events took from their publisher to their profile.
type delays struct{ sent map[sentKey]sent }

type sentKey struct {
	user int32
	id   profile.AppliedID
}

// sent is an event's first message.
type sent struct {
	at     time.Time // before it was published
	bySlot bool
}

// add takes in messages that the broker has confirmed. Events that wait for a phrase's
// vector are left out, because some are made to fail and wait for a retry.
func (d *delays) add(burst []rabbit.Message, began time.Time) {
	for i := range burst {
		e, good := parse(burst[i].Body)
		if !good || e.Type.HasPhrase() {
			continue
		}
		key := sentKey{e.UserID, e.Digest.ID()}
		if _, known := d.sent[key]; !known {
			d.sent[key] = sent{began, burst[i].Exchange == rabbit.DefaultNames().Slots}
		}
	}
}

// report tells how long events took, as far as profiles still say when they were written.
func (d *delays) report(profiles map[int32]*profile.Profile) (lines []string) {
	var took [2][]time.Duration
	for user, p := range profiles {
		for id, group := range p.Applied.All() {
			s, known := d.sent[sentKey{user, id}]
			if !known {
				continue
			}
			way := 0
			if s.bySlot {
				way = 1
			}
			took[way] = append(took[way], group.At.Time().Sub(s.at))
		}
	}
	for way, name := range []string{"by the common exchange", "by slot"} {
		all := took[way]
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(share float64) time.Duration {
			return all[int(share*float64(len(all)-1))].Round(10 * time.Millisecond)
		}
		lines = append(lines, fmt.Sprintf("to profile   %s: p50 %v, p99 %v, at most %v (%d events)", name, at(0.5), at(0.99), at(1), len(all)))
	}
	return lines
}
