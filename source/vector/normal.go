package vector

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Normal returns the text that is embedded for a phrase: in Unicode's normal
// form C, so that a composed and a decomposed accent are one phrase, without
// white space at its ends, each inner run of it one space. With fold its letters
// are small as well.
func Normal(phrase string, fold bool) string {
	if fold {
		phrase = strings.ToLower(phrase)
	}
	return normal(norm.NFC.String(phrase))
}

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
