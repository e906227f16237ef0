package vector

import (
	"strings"
	"unicode"
)

// normal trims white space and collapses each inner run of it to one space.
// Text that is so already, which is nearly all, costs no allocation.
func normal(text string) string {
	after := true // white space, or the beginning
	for _, r := range text {
		space := unicode.IsSpace(r)
		if space && (after || r != ' ') {
			return strings.Join(strings.Fields(text), " ")
		}
		after = space
	}
	if after {
		return strings.TrimSpace(text)
	}
	return text
}
