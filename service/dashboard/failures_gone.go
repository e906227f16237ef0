package dashboard

import "keyfold/service/failed"

// goneFailures are failures that an action has taken.
type goneFailures struct {
	by      map[string]int64 // how many of each place
	letters map[failed.Brief]int
}

func newGone() *goneFailures {
	return &goneFailures{by: map[string]int64{}, letters: map[failed.Brief]int{}}
}

// add notes a letter. An index has no more than are noted one by one.
func (g *goneFailures) add(l *failed.Letter) {
	g.by[l.Where]++
	if len(g.letters) < failed.MaxLetters {
		g.letters[l.Brief()]++
	}
}

// drop takes what has gone out of the index, and out of the counts.
func (x *failureIndex) drop(gone *goneFailures) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.shown)
	for where, n := range gone.by {
		count := x.counts[where]
		count.waiting = max(0, count.waiting-n)
		x.counts[where] = count
	}
	if x.last == nil {
		return
	}
	next := *x.last
	next.places, next.letters = map[string]readPlace{}, make([]failed.Brief, 0, len(x.last.letters))
	for where, place := range x.last.places {
		place.waiting = max(0, place.waiting-gone.by[where])
		next.places[where] = place
	}
	for _, b := range x.last.letters {
		if gone.letters[b] > 0 {
			gone.letters[b]--
			continue
		}
		next.letters = append(next.letters, b)
	}
	next.choose()
	x.last = &next
}
