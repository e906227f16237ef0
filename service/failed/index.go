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
	all   []Brief
	texts map[string]string // each once: letters have few reasons, types and errors
	bytes int               // of texts
}

// Add keeps a letter, and reports whether there was room.
func (x *Index) Add(l *Letter) bool {
	if x.Full() {
		return false
	}
	if x.texts == nil {
		x.texts = map[string]string{}
	}
	b := l.Brief()
	for _, text := range []*string{&b.Where, &b.User, &b.Type, &b.Reason, &b.Error} {
		*text = x.once(*text)
	}
	x.bytes += len(b.ID) + perText
	x.all = append(x.all, b)
	return true
}

// Full reports whether there is no room.
func (x *Index) Full() bool {
	return len(x.all) == MaxLetters || x.bytes+cap(x.all)*int(unsafe.Sizeof(Brief{})) >= MaxBytes
}

// perText is what a text takes beside its bytes: memory comes in sizes.
const perText = 32

func (x *Index) once(text string) string {
	if known, is := x.texts[text]; is {
		return known
	}
	x.texts[text] = text
	x.bytes += len(text) + perText
	return text
}

// Letters ends the index, and returns its letters, those that failed first first.
func (x *Index) Letters() []Brief {
	x.texts = nil
	slices.SortStableFunc(x.all, func(a, b Brief) int { return cmp.Compare(a.last, b.last) })
	return slices.Clip(x.all)
}
