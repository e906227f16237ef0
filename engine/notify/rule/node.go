package rule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting bounds how deep objects and arrays of a document are in each other.
const maxNesting = 100

// node is a JSON value with its place.
type node struct {
	kind    jsontext.Kind // 'n' null, 'f' and 't', '"', '0' a number, '{', '['
	path    string
	at      int    // offset in the text
	text    string // of a string without its escapes; of a number as it is written
	raw     []byte // as it is written
	members []member
	items   []*node
}

type member struct {
	name  string
	value *node
}

// get returns the value of a name, nil where there is none.
func (n *node) get(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// withArticle returns the kind for texts of faults.
func (n *node) withArticle() string {
	return map[jsontext.Kind]string{
		'n': "null", 'f': "a boolean", 't': "a boolean", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
	}[n.kind]
}

// parse reads a text that must be one JSON value. Names that stand twice in an object
// are faults, and the first one counts.
func (r *reader) parse(text []byte) *node {
	p := parser{reader: r, text: text, Decoder: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))}
	root, err := p.value("$")
	if err == nil {
		if _, err = p.ReadToken(); errors.Is(err, io.EOF) {
			return root
		}
		if err == nil {
			err = errors.New("found something more behind the document: remove it")
		}
	}
	at, what := p.explain(err)
	r.fault(&node{path: "$", at: at}, "%s", what)
	return nil
}

type parser struct {
	*jsontext.Decoder
	reader *reader
	text   []byte
}

func (p *parser) value(path string) (*node, error) {
	n := &node{kind: p.PeekKind(), path: path}
	if n.kind != '{' && n.kind != '[' {
		raw, err := p.ReadValue()
		n.at = int(p.InputOffset()) - len(raw)
		n.raw, n.text = slices.Clone(raw), string(raw)
		if err == nil && n.kind == '"' {
			var text []byte
			text, err = jsontext.AppendUnquote(nil, raw)
			n.text = string(text)
		}
		return n, err
	}
	_, err := p.ReadToken()
	if p.StackDepth() > maxNesting {
		return nil, fmt.Errorf("objects and arrays are more than %d deep in each other", maxNesting)
	}
	n.at = int(p.InputOffset()) - 1
	if err == nil && n.kind == '{' {
		err = p.object(n)
	} else if err == nil {
		err = p.array(n)
	}
	if err == nil {
		_, err = p.ReadToken()
		n.raw = p.text[n.at:p.InputOffset()]
	}
	return n, err
}

func (p *parser) array(n *node) error {
	for p.PeekKind() != ']' {
		item, err := p.value(n.path + "[" + strconv.Itoa(len(n.items)) + "]")
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

// bare matches names that need no quotes in a path.
var bare = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func below(path, name string) string {
	if bare.MatchString(name) {
		return path + "." + name
	}
	return path + "[" + strconv.Quote(name) + "]"
}

func (p *parser) object(n *node) error {
	seen := map[string]bool{}
	for p.PeekKind() != '}' {
		token, err := p.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := p.value(below(n.path, name))
		if err != nil {
			return err
		}
		if seen[name] {
			p.reader.fault(value, "the key %q is there twice: remove one", name)
			continue
		}
		seen[name] = true
		n.members = append(n.members, member{name, value})
	}
	return nil
}

// explain returns the offset and the text of a syntax error.
func (p *parser) explain(err error) (at int, text string) {
	at = int(p.InputOffset())
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = int(syntactic.ByteOffset), syntactic.Err
	}
	at = min(at, len(p.text))
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return at, "the text ends too early: expected the rest of one JSON object"
	}
	return at, fmt.Sprintf("byte %d: not valid JSON: %v", at, err)
}
