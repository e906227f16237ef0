package similar

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/unicode/norm"
)

// words.txt has the words that the measure "words" leaves out or takes for one
// another. A text in a language that is not in it is compared word by word.
//
//go:embed words.txt
var wordsFile string

// entry is what the lexicon knows of a phrase.
type entry struct {
	begins bool   // a longer phrase begins with it
	known  bool   // it is a phrase itself
	binds  bool   // it belongs to the word that follows: "to Paris"
	group  uint64 // stands for the phrase; 0: it says nothing
	state  uint32 // bit of a group of which near texts name the same; 0: none
}

// negation is the state of texts that deny something.
const negation = 1

// lexicon has the phrases by the hash of their tokens.
var lexicon = sync.OnceValue(func() map[uint64]entry {
	all, err := readLexicon(wordsFile)
	if err != nil {
		panic(err) // the file is a part of the program; its tests read it
	}
	return all
})

func readLexicon(file string) (map[uint64]entry, error) {
	all := map[uint64]entry{}
	states := map[string]uint32{"not": negation}
	for number, line := range strings.Split(file, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		name, phrases, found := strings.Cut(line, ": ")
		if !found {
			return nil, fmt.Errorf("line %d: expected a group and its phrases", number+1)
		}
		var e entry
		if name != "-" {
			e.group = xxhash.Sum64String(name)
		}
		e.binds = name[0] == '>'
		if state, ok := strings.CutPrefix(name, "!"); ok {
			if states[state] == 0 {
				states[state] = 1 << len(states)
			}
			if e.state = states[state]; e.state == 0 {
				return nil, fmt.Errorf("line %d: more than 32 groups are states", number+1)
			}
		}
		for _, phrase := range strings.Split(phrases, ", ") {
			if err := learn(all, phrase, e); err != nil {
				return nil, fmt.Errorf("line %d: %w", number+1, err)
			}
		}
	}
	return all, nil
}

// learn adds a phrase.
func learn(all map[uint64]entry, phrase string, e entry) error {
	var t text
	reader := reader{text: &t, rest: norm.NFKD.String(phrase)}
	for reader.rest != "" {
		reader.next()
	}
	if len(t.tokens) == 0 || len(t.guards) > 0 {
		return fmt.Errorf("%q is no phrase of words", phrase)
	}
	var h uint64
	for i, token := range t.tokens {
		h = follow(h, token.hash)
		known := all[h]
		if i < len(t.tokens)-1 {
			known.begins = true
		} else {
			if known.known && known.group != e.group {
				return fmt.Errorf("%q is in two groups", phrase)
			}
			e.begins, e.known = known.begins, true
			known = e
		}
		all[h] = known
	}
	return nil
}

// follow returns the hash of a phrase and one more token. A phrase of one token has
// the token's hash.
func follow(h, next uint64) uint64 {
	if h == 0 {
		return next
	}
	return pair(h, next)
}

// mean sets what the texts mean: the words that carry a meaning, and the states.
func (t *text) mean(p *Print) {
	m := meaning{print: p, words: make([]uint64, 0, len(t.tokens))}
	for rest := t.tokens; len(rest) > 0; {
		e, n := longest(lexicon(), rest)
		if n > 0 {
			m.phrase(e)
		} else {
			m.token(rest[0])
		}
		rest = rest[max(n, 1):]
	}
	if words := m.set(); len(words) > 0 && max(len(words), m.characters/2)+min(1, m.numbers) >= 2 {
		p.core = max(1, hashOf(words))
	}
}

// meaning collects the words that carry a meaning.
type meaning struct {
	print      *Print
	words      []uint64
	bound      uint64 // a word before, that belongs to the next
	run        uint64 // ideograms that stand side by side are a word
	characters int    // ideograms
	numbers    int    // tokens with digits
	ended      bool   // the title has ended
}

func (m *meaning) phrase(e entry) {
	m.endRun()
	m.print.states |= e.state
	switch {
	case e.binds:
		m.bound = e.group
	case e.group != 0:
		m.word(e.group)
	}
}

func (m *meaning) token(t token) {
	if t.sort != ideogram {
		m.endRun()
	}
	switch t.sort {
	case word:
		m.word(t.hash)
	case digits:
		m.numbers++
	case ideogram:
		m.characters++
		m.run = follow(m.run, t.hash)
		m.mark(t.hash)
	case breaks:
		m.bound = 0
		if !m.ended {
			m.print.title, m.ended = hashOf(m.set()), true
		}
	}
}

func (m *meaning) word(h uint64) {
	h, m.bound = follow(m.bound, h), 0
	m.words = append(m.words, h)
	m.mark(h)
}

func (m *meaning) endRun() {
	if m.run != 0 {
		m.words = append(m.words, m.run)
	}
	m.run = 0
}

// mark sets the bit of a word.
func (m *meaning) mark(h uint64) { m.print.words[h>>6&1] |= 1 << (h & 63) }

// set sorts the words and returns those that differ.
func (m *meaning) set() []uint64 {
	slices.Sort(m.words)
	m.words = slices.Compact(m.words)
	return m.words
}

// hashOf returns the hash of some words.
func hashOf(words []uint64) uint32 {
	h := uint64(len(words))
	for _, w := range words {
		h = pair(h, w)
	}
	return uint32(h)
}

// longest returns the longest phrase of the lexicon at the beginning of tokens, and
// the number of its tokens; 0 where there is none.
func longest(lexicon map[uint64]entry, tokens []token) (found entry, n int) {
	var h uint64
	for i, token := range tokens {
		if token.sort == breaks {
			break
		}
		h = follow(h, token.hash)
		e := lexicon[h]
		if e.known {
			found, n = e, i+1
		}
		if !e.begins {
			break
		}
	}
	return found, n
}
