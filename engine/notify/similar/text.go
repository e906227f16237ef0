package similar

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/unicode/norm"
)

// sort is the sort of a token.
type sort uint8

const (
	word     sort = iota
	digits        // a token with digits
	syllable      // a character of a script without spaces that says nothing alone: hiragana
	ideogram      // any other character of a script without spaces
	breaks        // the end of a text
)

// token is a word of a text, folded: lower case, compatibility forms replaced, without
// the accents that capitals are often written without.
type token struct {
	hash uint64
	sort sort
	caps int // letters of a word in capitals, else 0
}

// text collects what is compared of a notification's texts.
type text struct {
	tokens []token
	guards []uint64 // hashes of tokens with digits, of signs and of codes
	small  []byte   // numbers of one digit, in their order: "buy 2, get 1"
}

// read adds a text.
func (t *text) read(s string) {
	first := len(t.tokens)
	r := reader{text: t, rest: norm.NFKD.String(s)}
	for r.rest != "" {
		r.next()
	}
	t.tokens = append(t.tokens, token{sort: breaks})
	t.codes(t.tokens[first:], !r.lower)
}

// codes adds words in capitals to the guard, such as the code in "Use SUMMER". Two in
// a row, and a text without small letters, are a loud voice.
func (t *text) codes(tokens []token, loud bool) {
	for i := range tokens {
		if tokens[i].caps < 4 || loud || i > 0 && tokens[i-1].caps > 1 || tokens[i+1].caps > 1 {
			continue
		}
		if !lexicon()[tokens[i].hash].known {
			t.guards = append(t.guards, tokens[i].hash)
		}
	}
}

// reader reads the tokens of a text in NFKD.
type reader struct {
	*text
	rest  string
	lower bool // it has small letters
	token []byte
	last  rune // the character before rest
	sign  byte // '+' or '-' of the number that follows, else 0
}

// next reads a token or skips a character.
func (r *reader) next() {
	c, size := utf8.DecodeRuneInString(r.rest)
	switch {
	case wordless(c):
		r.sign = 0
		r.character(c, size)
	case inWord(c):
		r.word()
	case r.signs(c, r.rest[size:]):
		r.rest = r.rest[size:]
	case unicode.Is(unicode.Sc, c) || c == '%' || c == '‰' || c == '٪':
		if c == '٪' {
			c = '%'
		}
		r.guards = append(r.guards, xxhash.Sum64String(string(c)))
		r.rest = r.rest[size:]
	default:
		r.rest = r.rest[size:]
	}
	r.last = c
}

// signs reports whether a character is the sign of a number, as in "+50", "-$50" and
// "+ 50", and keeps it. "A-50" and "9-17" have none, and "sale - 50" has a dash.
func (r *reader) signs(c rune, rest string) bool {
	sign := byte('-')
	switch c {
	case '-', '‐', '–', '−':
	case '+':
		sign, rest = '+', strings.TrimLeftFunc(rest, unicode.IsSpace)
	default:
		return false
	}
	next, size := utf8.DecodeRuneInString(rest)
	if unicode.Is(unicode.Sc, next) {
		next, _ = utf8.DecodeRuneInString(rest[size:])
	}
	if inWord(r.last) || !unicode.IsDigit(next) {
		return false
	}
	r.sign = sign
	return true
}

// character reads one character of a script without spaces, with its marks.
func (r *reader) character(c rune, size int) {
	end := size
	for end < len(r.rest) {
		mark, size := utf8.DecodeRuneInString(r.rest[end:])
		if !unicode.Is(unicode.Mn, mark) {
			break
		}
		end += size
	}
	t := token{hash: xxhash.Sum64String(r.rest[:end]), sort: ideogram}
	switch {
	case numeral(c):
		t.sort = digits
		r.guards = append(r.guards, t.hash)
	case unicode.Is(unicode.Hiragana, c):
		t.sort = syllable
	}
	r.tokens = append(r.tokens, t)
	r.rest = r.rest[end:]
}

// word reads a word or a token with digits.
func (r *reader) word() {
	r.token = r.token[:0]
	if r.sign != 0 {
		r.token = append(r.token, r.sign)
	}
	r.sign = 0
	var previous rune
	hasDigit, upper, letters, at := false, 0, 0, 0
	for at < len(r.rest) {
		c, size := utf8.DecodeRuneInString(r.rest[at:])
		switch {
		case wordless(c):
			size = 0
		case unicode.IsDigit(c):
			hasDigit = true
			c = '0' + digitOf(c)
			r.token = append(r.token, byte(c))
		case inWord(c):
			if unicode.IsUpper(c) {
				upper++
			}
			if unicode.IsLetter(c) {
				letters++
			}
			r.lower = r.lower || unicode.IsLower(c)
			r.token = fold(r.token, c)
		case at > 0 && joins(c, previous, hasDigit, r.rest[at+size:]):
			r.token = utf8.AppendRune(r.token, c)
		default:
			size = 0
		}
		if size == 0 {
			break
		}
		previous, at = c, at+size
	}
	r.rest = r.rest[at:]
	if len(r.token) == 0 {
		return // marks only
	}
	t := token{hash: xxhash.Sum64(r.token)}
	if upper == letters && !hasDigit {
		t.caps = upper
	}
	if hasDigit {
		t.sort = digits
		r.guards = append(r.guards, t.hash)
		if len(r.token) == 1 {
			r.small = append(r.small, r.token[0])
		}
	}
	r.tokens = append(r.tokens, t)
}

// joins reports whether a sign belongs to a token with digits: between digits in
// "4,99", "10:30" and "1⁄2", and before or after a digit's part in "1001-A".
func joins(c, previous rune, hasDigit bool, rest string) bool {
	next, _ := utf8.DecodeRuneInString(rest)
	switch c {
	case '.', ',', ':', '\'', '’', '⁄', '٫', '٬':
		return unicode.IsDigit(previous) && unicode.IsDigit(next)
	case '-', '‐', '/', '_', '#', '+':
		return unicode.IsDigit(next) || hasDigit && unicode.IsLetter(next) && !wordless(next)
	}
	return false
}

// inWord reports whether a character is a part of words.
func inWord(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.Mn, c) || unicode.Is(unicode.Mc, c)
}

// wordless reports whether a character is of a script that puts no spaces between
// words and has a character for a syllable or a word.
func wordless(c rune) bool {
	return c >= 0x2e80 && (unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana) || c == 'ー' || c == '々')
}

// numeral reports whether a character of Chinese and Japanese is a number. The one is
// left out: it is a part of many words.
func numeral(c rune) bool { return slices.Contains([]rune("二三四五六七八九十百千万"), c) }

// digitOf returns the value of a decimal digit of any script. In Unicode, digits
// stand in rows of ten.
func digitOf(c rune) rune {
	for _, r := range unicode.Nd.R16 {
		if rune(r.Lo) <= c && c <= rune(r.Hi) {
			return (c - rune(r.Lo)) % 10
		}
	}
	for _, r := range unicode.Nd.R32 {
		if rune(r.Lo) <= c && c <= rune(r.Hi) {
			return (c - rune(r.Lo)) % 10
		}
	}
	return 0
}

// fold appends a character of a word in lower case, without accents of Latin, Greek
// and Cyrillic and without vowel signs of Arabic and Hebrew.
func fold(b []byte, c rune) []byte {
	switch c = unicode.ToLower(c); {
	case c < utf8.RuneSelf:
		return append(b, byte(c))
	case c >= 0x300 && c < 0x370, c >= 0x591 && c < 0x5c8, c >= 0x64b && c < 0x660:
		return b
	case c == 'ß':
		return append(b, "ss"...)
	case c == 'ı':
		return append(b, 'i')
	case c == 'ς':
		c = 'σ'
	}
	return utf8.AppendRune(b, c)
}
