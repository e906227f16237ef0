package openai

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// requests splits texts into what one request may hold, in their order.
func (c *Client) requests(texts []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var inputs []string
		bytes := 0
		for _, text := range texts {
			short := cut(text, c.config.MaxInputBytes)
			if len(inputs) == c.config.MaxInputs || (len(inputs) > 0 && bytes+len(short) > c.config.MaxRequestBytes) {
				if !yield(inputs) {
					return
				}
				inputs, bytes = nil, 0
			}
			inputs, bytes = append(inputs, short), bytes+len(short)
		}
		if len(inputs) > 0 {
			yield(inputs)
		}
	}
}

// cut returns a text's beginning of at most that many bytes: up to the last
// white space in its second half, or else up to a whole character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	text = text[:most]
	if space := strings.LastIndexAny(text, " \t\n"); space > most/2 {
		return text[:space]
	}
	return text
}
