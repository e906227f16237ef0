package reader

import (
	"strings"

	"keyfold/engine/profile"
)

// outlines are those of a stream's bodies, each once. Metadata that differ from one event to
// the next give each body an outline of its own: then no more are kept, nor looked for.
type outlines struct {
	known  map[string]*profile.Outline
	misses int    // in excess of hits, since all are known
	room   []byte // for the next one
}

const (
	// maxOutlines bounds those of a session: some hundred bytes each.
	maxOutlines = 1024
	// maxMisses is after how many bodies without a known outline none is looked for.
	maxMisses = 4096
	// maxOutlineBytes keeps what is no form of many bodies out: a longer body is held whole.
	maxOutlineBytes = 2 << 10
)

// of returns an outline to keep, nil where there are too many.
func (o *outlines) of(text []byte) *profile.Outline {
	if text == nil || len(text) > maxOutlineBytes || o.misses > maxMisses {
		return nil
	}
	o.room = text // grown as it is
	known := o.known[string(text)]
	switch {
	case known != nil:
		o.misses = max(0, o.misses-1)
	case len(o.known) < maxOutlines:
		outline := profile.Outline(text)
		if known = &outline; o.known == nil {
			o.known = map[string]*profile.Outline{}
		}
		o.known[string(outline)] = known
	default:
		o.misses++
	}
	return known
}

// texts are short texts in blocks of memory, each of which is free when none of its texts is
// held: an allocation for each would take more.
type texts struct{ block strings.Builder }

const blockBytes = 16 << 10

// join returns a text of both.
func (t *texts) join(a string, b []byte) string {
	if t.block.Cap()-t.block.Len() < len(a)+len(b) {
		t.block = strings.Builder{}
		t.block.Grow(max(blockBytes, len(a)+len(b)))
	}
	from := t.block.Len()
	t.block.WriteString(a)
	t.block.Write(b)
	return t.block.String()[from:]
}
