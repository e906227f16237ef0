package failed

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Choice says which letters of an index are meant. It looks at what the index keeps of a letter
// alone, so that what is done to the chosen ones is done to those that were shown.
type Choice struct {
	Filter
	Where string // "": every place
	ID    string // part of it
	Key   string // of one letter
}

// Matches reports whether a letter is chosen, by what an index keeps of it.
func (c *Choice) Matches(full *Letter) bool {
	b := full.Brief()
	l := b.Letter()
	return c.meets(&b, &l)
}

func (c *Choice) meets(b *Brief, l *Letter) bool {
	return (c.Where == "" || b.Where == c.Where) && (c.ID == "" || strings.Contains(b.ID, c.ID)) && (c.Key == "" || b.Key() == c.Key) && c.Filter.Matches(l)
}

// Group is what several failures have in common.
type Group struct {
	Reason, Type string
	Count        int
	Example      string    // an error of one of them
	Oldest       time.Time // zero: not known
}

// Selection is what of an index was chosen.
type Selection struct {
	Letters []*Brief
	Counts  *Counts
	Groups  []Group // the largest first
}

// Select returns what is chosen of an index.
func (c *Choice) Select(all []Brief) Selection {
	s := Selection{Counts: NewCounts()}
	at := map[[2]string]int{}
	room := make([]string, 1)
	for i := range all {
		b := &all[i]
		l := b.letter(room)
		if !c.meets(b, &l) {
			continue
		}
		s.Letters = append(s.Letters, b)
		s.Counts.Add(&l)
		key := [2]string{l.Reason, l.Kind()}
		n, known := at[key]
		if !known {
			if len(s.Groups) == maxKinds {
				continue
			}
			n = len(s.Groups)
			at[key] = n
			s.Groups = append(s.Groups, Group{Reason: l.Reason, Type: l.Kind(), Example: b.Error})
		}
		s.Groups[n].add(b)
	}
	slices.SortStableFunc(s.Groups, func(a, b Group) int { return cmp.Compare(b.Count, a.Count) })
	return s
}

func (g *Group) add(b *Brief) {
	g.Count++
	if failed := b.LastFailure(); !failed.IsZero() && (g.Oldest.IsZero() || failed.Before(g.Oldest)) {
		g.Oldest = failed
	}
}
