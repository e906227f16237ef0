package failed

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"keyfold/internal/cli"
)

// Counts are how many failures there are.
type Counts struct {
	Letters int            `json:"letters"`
	Reasons map[string]int `json:"by_reason"`
	Types   map[string]int `json:"by_type"`
	Oldest  *time.Time     `json:"oldest,omitempty"` // by last failure
	Newest  *time.Time     `json:"newest,omitempty"`
}

// NewCounts returns counts of nothing.
func NewCounts() *Counts { return &Counts{Reasons: map[string]int{}, Types: map[string]int{}} }

// maxKinds bounds the names counted: foreign letters may make up any number.
const maxKinds = 1000

// others is the name of what is counted behind the bound.
const others = "others"

// Add counts a letter.
func (c *Counts) Add(l *Letter) {
	c.Letters++
	count(c.Reasons, l.Reason)
	count(c.Types, l.Kind())
	if t := l.LastFailure.UTC(); !l.LastFailure.IsZero() {
		if c.Oldest == nil || t.Before(*c.Oldest) {
			c.Oldest = &t
		}
		if c.Newest == nil || t.After(*c.Newest) {
			c.Newest = &t
		}
	}
}

func count(names map[string]int, name string) {
	if _, known := names[name]; !known && len(names) >= maxKinds {
		name = others
	}
	names[name]++
}

// Print writes the counts.
func (c *Counts) Print(w *cli.Text) {
	w.Line("%s", cli.Count(int64(c.Letters), "dead letter"))
	if c.Letters == 0 {
		return
	}
	printCounts(w, "by reason", c.Reasons)
	printCounts(w, "by type", c.Types)
	if c.Oldest != nil {
		w.Line("oldest failure  %s", at(*c.Oldest))
		w.Line("newest failure  %s", at(*c.Newest))
	}
}

func printCounts(w *cli.Text, title string, names map[string]int) {
	w.Line("%s", title)
	for _, name := range Ranked(names) {
		w.Line("  %-32s %10s", cli.Printable(name), cli.Number(int64(names[name])))
	}
}

// Ranked returns names by their counts, the most first.
func Ranked(names map[string]int) []string {
	return slices.SortedFunc(maps.Keys(names), func(x, y string) int {
		return cmp.Or(names[y]-names[x], strings.Compare(x, y))
	})
}
