package products

import (
	"fmt"
	"strings"

	"keyfold/internal/cli"
)

// maxFaults bounds the bad products that are named.
const maxFaults = 20

// BadProducts are the products of a file that cannot be stored, as an error.
type BadProducts struct {
	Count  int
	Faults []error // the first ones
}

func (b *BadProducts) add(fault error) {
	b.Count++
	if len(b.Faults) < maxFaults {
		b.Faults = append(b.Faults, fault)
	}
}

// Error names the first bad products and the cure.
func (b *BadProducts) Error() string {
	if b.Count == 1 {
		return b.Faults[0].Error() + " (or leave it out: products import --skip-bad)"
	}
	return fmt.Sprintf("%d invalid products; fix them, or leave them out with products import --skip-bad:%s", b.Count, b.List())
}

// List returns the first bad products, one a line.
func (b *BadProducts) List() string {
	var list strings.Builder
	for _, fault := range b.Faults {
		fmt.Fprintf(&list, "\n  %v", fault)
	}
	if more := b.Count - len(b.Faults); more > 0 {
		fmt.Fprintf(&list, "\n  and %d more", more)
	}
	return list.String()
}

// Unwrap returns the faults, for their kinds.
func (b *BadProducts) Unwrap() []error { return b.Faults }

// Warning says which products of an import may not be as they were meant, "" where
// all are.
func (im *Import) Warning(done Imported) string {
	text := ""
	if done.Skipped > 0 {
		text = fmt.Sprintf("%s left out:%s\n", cli.Count(int64(done.Skipped), "bad product"), im.Bad.List())
	}
	if done.Nameless > 0 {
		text += cli.Count(int64(done.Nameless), "product") + " without embedding, name and category: " +
			"the vectors made of the ids alone are near no phrase and no other product\n"
	}
	return text
}
