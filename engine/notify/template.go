package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	syntax "text/template/parse"
)

// MaxTemplateBytes bounds a template as it is written.
const MaxTemplateBytes = 4096

// Template makes a text of a digest. It has no loop but that over the items, and no
// method and no other template can be called, because a published set must not be able
// to hold up a worker.
type Template struct {
	Text   string // as it is written
	title  bool
	parsed *template.Template
}

// DigestText is what a template shows.
type DigestText struct {
	Key   string // of the digest
	User  string // user_id
	Count int    // items of the message
	More  int    // of these, those that are not in Items
	Items []DigestItem
}

// DigestItem is an item that a template shows. Its metadata is read with the function
// metadata.
type DigestItem struct {
	Title, Message, Type, Source string
	metadata                     Metadata
	sample                       bool
}

// DigestItemOf returns what a template shows of an event.
func DigestItemOf(n *Notification) DigestItem {
	return DigestItem{Title: n.Title, Message: n.Message, Type: n.Type.String(), Source: n.Source, metadata: n.Metadata}
}

// templateFunctions are those that templates have beside [templateBuiltins].
var templateFunctions = template.FuncMap{
	"metadata": func(item DigestItem, path string) string {
		if item.sample {
			return path
		}
		return item.metadata.Get(path).text()
	},
	"cut": func(most int, text string) string { return cutRunes(text, max(most, len(ellipsis))) },
}

// templateBuiltins are those of text/template that cost little. printf is none of them,
// because its widths make texts of any length.
var templateBuiltins = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len"}

// Names that templates may use, as texts of errors list them.
var (
	digestFields = []string{"Count", "More", "Key", "User", "Items"}
	itemFields   = []string{"Title", "Message", "Type", "Source"}
)

// ParseTitle reads the template of a digest's title. It makes one line of at most
// [MaxTitleRunes].
func ParseTitle(text string) (*Template, error) { return parseTemplate(text, true) }

// ParseMessage reads the template of a digest's message. It makes at most
// [MaxMessageRunes].
func ParseMessage(text string) (*Template, error) { return parseTemplate(text, false) }

func parseTemplate(text string, title bool) (*Template, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("the template is empty: write a text, or leave the key out")
	case len(text) > MaxTemplateBytes:
		return nil, fmt.Errorf("the template has %d bytes, expected at most %d: shorten it", len(text), MaxTemplateBytes)
	case strings.Contains(text, "\x00"):
		return nil, errors.New("the template has a NUL character: remove it")
	}
	parsed, err := template.New("template").Funcs(templateFunctions).Parse(text)
	if err != nil {
		return nil, templateError(err)
	}
	if len(parsed.Templates()) > 1 {
		return nil, errors.New("a template defines no other one: remove define and block")
	}
	if parsed.Tree == nil || parsed.Root == nil { // a comment alone
		return nil, errors.New("the template is empty: write a text, or leave the key out")
	}
	if err := (templateChecker{}).node(parsed.Root); err != nil {
		return nil, err
	}
	t := &Template{Text: text, title: title, parsed: parsed}
	return t, t.try()
}

// templateError returns an error of text/template without the parts that say nothing to
// the author of a set.
func templateError(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: template:")
	text = strings.ReplaceAll(text, `executing "template" at `, "at ")
	return fmt.Errorf("line %s: correct the template", text)
}

// Make returns the text of a digest. What is too long is cut and ends in "...".
func (t *Template) Make(d DigestText) (string, error) {
	out := cutter{left: 4 * 4 * MaxMessageRunes} // white space may fall away
	if err := t.parsed.Execute(&out, d); err != nil && !errors.Is(err, errCut) {
		return "", templateError(err)
	}
	text := strings.ToValidUTF8(out.String(), "") // a character may be cut
	if t.title {
		return cutRunes(strings.Join(strings.Fields(text), " "), MaxTitleRunes), nil
	}
	return cutRunes(strings.TrimSpace(text), MaxMessageRunes), nil
}

// try makes texts of samples, so that most of what can fail does so before a set is
// published.
func (t *Template) try() error {
	for _, count := range []int{1, 3, MaxDigestItems} {
		d := DigestText{Key: "key", User: "user", Count: count, More: count / 10 * 9}
		for range count - d.More {
			d.Items = append(d.Items, DigestItem{"title", "message", Update.String(), "source", nil, true})
		}
		text, err := t.Make(d)
		if err != nil {
			return err
		}
		if text == "" {
			return fmt.Errorf("the template makes an empty text of %d items: write a text that is always there", count)
		}
	}
	return nil
}

const ellipsis = "..."

// cutRunes cuts a text to so many characters.
func cutRunes(text string, most int) string {
	runes, kept := 0, 0
	for at := range text {
		if runes == most-len(ellipsis) {
			kept = at
		}
		if runes++; runes > most {
			return strings.TrimRight(text[:kept], " ") + ellipsis
		}
	}
	return text
}

// errCut ends a template whose text is long enough.
var errCut = errors.New("the text is long enough")

// cutter keeps the beginning of what is written to it.
type cutter struct {
	bytes.Buffer
	left int
}

var _ io.Writer = (*cutter)(nil)

func (c *cutter) Write(b []byte) (int, error) {
	if len(b) > c.left {
		n, _ := c.Buffer.Write(b[:c.left])
		c.left = 0
		return n, errCut
	}
	c.left -= len(b)
	return c.Buffer.Write(b)
}

// WriteString is needed because the embedded one would go past the bound.
func (c *cutter) WriteString(s string) (int, error) { return c.Write([]byte(s)) }

// templateChecker refuses what is not known to end soon, and unknown names.
type templateChecker struct {
	items bool // inside of a range: the dot is an item
}

func (c templateChecker) node(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.ListNode:
		if n == nil {
			return nil
		}
		for _, kid := range n.Nodes {
			if err := c.node(kid); err != nil {
				return err
			}
		}
		return nil
	case *syntax.ActionNode:
		return c.pipe(n.Pipe)
	case *syntax.IfNode:
		return firstError(c.pipe(n.Pipe), c.node(n.List), c.node(n.ElseList))
	case *syntax.RangeNode:
		return c.loop(n)
	case *syntax.TextNode, *syntax.CommentNode, *syntax.BreakNode, *syntax.ContinueNode:
		return nil
	case *syntax.WithNode:
		return errors.New("with is not for these templates: use if")
	case *syntax.TemplateNode:
		return errors.New("a template calls no other one: remove template and block")
	default:
		return fmt.Errorf("found %s, expected texts, actions, if and range", n)
	}
}

// loop allows one loop over the items, with no other one in it.
func (c templateChecker) loop(n *syntax.RangeNode) error {
	over := strings.TrimPrefix(n.Pipe.Cmds[0].String(), "$")
	if c.items || len(n.Pipe.Cmds) > 1 || over != ".Items" {
		return errors.New("a range goes over .Items, and not inside of another one: write {{range .Items}}...{{end}}")
	}
	return firstError(templateChecker{items: true}.node(n.List), c.node(n.ElseList))
}

func (c templateChecker) pipe(p *syntax.PipeNode) error {
	for _, command := range p.Cmds {
		for _, argument := range command.Args {
			if err := c.argument(argument); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c templateChecker) argument(n syntax.Node) error {
	known := digestFields
	if c.items {
		known = itemFields
	}
	switch n := n.(type) {
	case *syntax.PipeNode:
		return c.pipe(n)
	case *syntax.IdentifierNode:
		if _, own := templateFunctions[n.Ident]; !own && !slices.Contains(templateBuiltins, n.Ident) {
			return fmt.Errorf("unknown function %s: use one of metadata, cut, %s", n.Ident, strings.Join(templateBuiltins, ", "))
		}
	case *syntax.FieldNode:
		return fieldOfTemplate(n.String(), n.Ident, known)
	case *syntax.VariableNode:
		if n.Ident[0] == "$" {
			return fieldOfTemplate(n.String(), n.Ident[1:], digestFields)
		}
		return fieldOfTemplate(n.String(), n.Ident[1:], itemFields)
	case *syntax.ChainNode:
		return fmt.Errorf("found %s, expected a field of the digest or of an item", n)
	}
	return nil
}

// fieldOfTemplate checks the names of a field.
func fieldOfTemplate(field string, names, known []string) error {
	if len(names) == 0 || len(names) == 1 && slices.Contains(known, names[0]) {
		return nil
	}
	return fmt.Errorf("unknown field %s: use one of .%s; metadata is read with {{metadata . \"order_id\"}} inside of a range",
		field, strings.Join(known, ", ."))
}

// firstError returns the first of errors that is one.
func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
