package failed

import (
	"cmp"
	"slices"
	"unsafe"
)

// Bounds of an index.
const (
	MaxLetters = 100_000
	MaxBytes   = 64 << 20
)

// Index keeps failures in brief, as many as its bounds allow. It is for one goroutine.
type Index struct {
	Over  int // letters behind the bounds
	all   []Brief
	texts map[string]string // each once: letters have few reasons, types and errors
	bytes int
}

// Add keeps a letter, and reports whether there was room.
func (x *Index) Add(l *Letter) bool {
	if len(x.all) == MaxLetters || x.bytes >= MaxBytes {
		x.Over++
		return false
	}
	if x.texts == nil {
		x.texts = map[string]string{}
	}
	b := l.Brief()
	for _, text := range []*string{&b.Where, &b.User, &b.Type, &b.Reason, &b.Error} {
		*text = x.once(*text)
	}
	x.bytes += int(unsafe.Sizeof(b)) + len(b.ID)
	x.all = append(x.all, b)
	return true
}

func (x *Index) once(text string) string {
	if known, is := x.texts[text]; is {
		return known
	}
	x.texts[text] = text
	x.bytes += len(text)
	return text
}

// Letters ends the index, and returns its letters, those that failed first first.
func (x *Index) Letters() []Brief {
	x.texts = nil
	slices.SortStableFunc(x.all, func(a, b Brief) int { return cmp.Compare(a.last, b.last) })
	return slices.Clip(x.all)
}
