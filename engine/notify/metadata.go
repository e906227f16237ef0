package notify

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"keyfold/engine"
)

// Limits of JSON values in a body.
const (
	// MaxMetadataDepth bounds objects and arrays within each other, the metadata
	// itself included.
	MaxMetadataDepth = 8
	// MaxNumberBytes and [MaxExponent] keep a number within what SQL's numeric
	// takes: 131,072 digits before the point and 16,383 behind it.
	MaxNumberBytes = 1000
	// pathLevels is how deep the paths of [Metadata] go.
	pathLevels = 4
)

// storable adds a fault where a value holds what no column of SQL takes. label is
// the field as the fault's text names it.
func (p *parser) storable(name, label string, value engine.Value) {
	for at, token := range tokens(value.Text) {
		switch kindOf(token) {
		case String:
			if hasNul(token) {
				p.once(name, engine.ReasonNulCharacter, `%s: found \u0000 in the text at byte %d, expected text that SQL columns can keep`,
					label, value.Offset+at)
			}
		case Number:
			if !inRange(token) {
				p.once(name, FaultNumberOutOfRange, "%s: found the number %s, expected at most %d characters and an exponent of at most %d",
					label, engine.Quoted(token), MaxNumberBytes, MaxExponent)
			}
		}
	}
}

// hasNul reports whether a string in JSON has the escape \u0000. The character
// itself, unescaped, is no JSON.
func hasNul(token []byte) bool {
	for {
		i := bytes.IndexByte(token, '\\')
		if i < 0 {
			return false
		}
		if bytes.HasPrefix(token[i+1:], []byte("u0000")) {
			return true
		}
		token = token[i+2:]
	}
}

func inRange(number []byte) bool {
	if len(number) > MaxNumberBytes {
		return false
	}
	i := bytes.IndexAny(number, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(string(number[i+1:]))
	return err == nil && -MaxExponent <= exponent && exponent <= MaxExponent
}

// tokens yields the strings, scalars and brackets of a valid JSON text with their
// offsets. It goes without recursion.
func tokens(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for start := 0; start < len(text); {
			end := start + 1
			switch text[start] {
			case ' ', '\t', '\n', '\r', ',', ':':
				start++
				continue
			case '{', '}', '[', ']':
			case '"':
				for ; text[end] != '"'; end++ {
					if text[end] == '\\' {
						end++
					}
				}
				end++
			default:
				for end < len(text) && strings.IndexByte(" \t\n\r,:{}[]", text[end]) < 0 {
					end++
				}
			}
			if !yield(start, text[start:end]) {
				return
			}
			start = end
		}
	}
}

// metadata returns the metadata by paths.
func (p *parser) metadata() Metadata {
	if !p.set(fieldMetadata, Object) {
		return nil
	}
	text := p.fields[fieldMetadata].Text
	if len(text) > MaxMetadataBytes {
		p.fault(fieldMetadata, FaultMetadataTooLarge, "found %d bytes, expected at most %d", len(text), MaxMetadataBytes)
		return nil
	}
	if depthOf(text) > MaxMetadataDepth {
		p.fault(fieldMetadata, FaultMetadataTooDeep, "found objects and arrays %d deep, expected at most %d", depthOf(text), MaxMetadataDepth)
		return nil
	}
	m := flatten(nil, "", 1, text)
	if path := m.ambiguous(text); path != "" {
		p.fault(fieldMetadata, FaultAmbiguousPath, "found two values under the path %s, expected one: a dot in a key makes a path", engine.Quoted([]byte(path)))
	}
	return m
}

// depthOf returns how deep objects and arrays of a valid JSON text are.
func depthOf(text []byte) (deepest int) {
	depth := 0
	for _, token := range tokens(text) {
		switch token[0] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// flatten appends the members of a valid JSON object, whose own path is prefix.
func flatten(m Metadata, prefix string, level int, object []byte) Metadata {
	_, _ = engine.ReadObject(object, func(name []byte, value engine.Value) error {
		path := prefix + string(name)
		m = append(m, Member{Path: path, Value: valueOf(value)})
		if kindOf(value.Text) == Object && level < pathLevels {
			m = flatten(m, path+".", level+1, value.Text)
		}
		return nil
	}) // the body's reader has found the object to be good
	return m
}

func valueOf(value engine.Value) Value {
	v := Value{Kind: kindOf(value.Text)}
	switch v.Kind {
	case Bool:
		v.Bool = value.Text[0] == 't'
	case Number:
		v.Text = string(value.Text)
		v.Number, _ = ParseDecimal(v.Text) // out of range is a fault already
	case String:
		v.Text = string(value.Unquoted())
	case Array:
		v.Items = textsIn(value.Text)
	}
	return v
}

// textsIn returns the texts that are items of a valid JSON array.
func textsIn(array []byte) (texts []string) {
	depth := 0
	for _, token := range tokens(array) {
		switch token[0] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			if depth == 1 {
				texts = append(texts, string(engine.Value{Text: token}.Unquoted()))
			}
		}
	}
	return texts
}

// ambiguous returns a path that two members have, "" where there is none. Only a
// key with a dot can make one, and text without a dot and an escape has none.
func (m Metadata) ambiguous(text []byte) string {
	if !bytes.ContainsAny(text, `.\`) {
		return ""
	}
	seen := make(map[string]bool, len(m))
	for i := range m {
		if seen[m[i].Path] {
			return m[i].Path
		}
		seen[m[i].Path] = true
	}
	return ""
}
