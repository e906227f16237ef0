package notify

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"keyfold/internal/testserver/must"
)

// news makes the text of a digest of so many items.
func news(titles ...string) DigestText {
	d := DigestText{Key: "offers", User: "u-1", Count: len(titles) + 2, More: 2}
	for _, title := range titles {
		d.Items = append(d.Items, DigestItemOf(&Notification{
			Title: title, Message: "about " + title, Type: Promo, Source: "shop",
			Metadata: Metadata{{Path: "order.id", Value: Value{Kind: Number, Text: "4711"}}, {Path: "list", Value: Value{Kind: Array}}},
		}))
	}
	return d
}

func TestTemplatesMakeTexts(t *testing.T) {
	for text, want := range map[string]string{
		"{{.Count}} news of {{.Key}} for {{.User}}":                                                "5 news of offers for u-1",
		"{{range .Items}}{{.Title}}: {{.Message}} ({{.Type}}, {{.Source}})\n{{end}}":               "A: about A (PROMO, shop)\nB: about B (PROMO, shop)\nC: about C (PROMO, shop)",
		"{{range $i, $x := .Items}}{{if $i}}, {{end}}{{$x.Title}}{{end}} and {{.More}}":            "A, B, C and 2",
		`{{range .Items}}{{metadata . "order.id"}}{{metadata . "list"}}{{metadata . "x"}},{{end}}`: "4711,4711,4711,",
		"{{if gt .More 0}}{{.More}} more{{else}}all{{end}}":                                        "2 more",
		"{{range .Items}}{{cut 6 .Message}}{{break}}{{end}}":                                       "abo...",
		"{{range .Items}}{{$.Count}}{{end}}":                                                       "555",
		"{{with_text}}":                                                                            "",
	} {
		made, err := ParseMessage(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s was read", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if found, err := made.Make(news("A", "B", "C")); found != want || err != nil || made.Text != text {
			t.Errorf("%s: found %q, %v, expected %q", text, found, err, want)
		}
	}
}

func TestTextsOfTemplatesAreBounded(t *testing.T) {
	title, err := ParseTitle("  News:\n\t{{range .Items}}{{.Title}}  {{end}}")
	must.OK(t, err)
	if found, err := title.Make(news("a", "b\nc")); found != "News: a b c" || err != nil {
		t.Errorf("found %q, %v: white space stays", found, err)
	}
	message, err := ParseMessage("{{range .Items}}{{.Title}}{{end}}")
	must.OK(t, err)
	for _, test := range []struct {
		of    *Template
		runes int
	}{{title, MaxTitleRunes}, {message, MaxMessageRunes}} {
		for _, length := range []int{test.runes + 1, 100 * test.runes} {
			found, err := test.of.Make(news(strings.Repeat("ü", length)))
			if n := utf8.RuneCountInString(found); err != nil || n != test.runes || !strings.HasSuffix(found, "ü...") {
				t.Errorf("%s of %d characters: found %d, %v, expected %d", test.of.Text, length, n, err, test.runes)
			}
		}
	}
	if found, _ := message.Make(news(strings.Repeat("ü", MaxMessageRunes))); utf8.RuneCountInString(found) != MaxMessageRunes || strings.Contains(found, "...") {
		t.Errorf("a text that fits is cut: %d", utf8.RuneCountInString(found))
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "is empty",
		"{{/* nothing */}}":                     "empty",
		strings.Repeat("x", MaxTemplateBytes+1): "4097 bytes",
		"a\x00b":                                "NUL",
		"{{.Count":                              "line 1: unclosed action",
		"{{.Cuont}}":                            "unknown field .Cuont: use one of .Count, .More",
		"{{range .Items}}{{.Count}}{{end}}":     "unknown field .Count: use one of .Title",
		"{{if gt .Count 1000}}{{.X}}{{end}} x":  "unknown field .X",
		"{{.Key.Len}}":                          "unknown field .Key.Len",
		"{{range $x := .Items}}{{$x.Metadata}}{{end}}":              "unknown field $x.Metadata",
		"{{range .Items}}{{range $.Items}}{{.Title}}{{end}}{{end}}": "not inside of another one",
		"{{range 1000000000}}x{{end}}":                              "a range goes over .Items",
		"{{range .Count}}x{{end}}":                                  "a range goes over .Items",
		"{{range .Items | len}}x{{end}}":                            "a range goes over .Items",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:     "defines no other one",
		`{{define "template"}}{{template "template"}}{{end}}`:       "calls no other one",
		`{{template "template" .}}`:                                 "calls no other one",
		`{{block "b" .}}x{{end}}`:                                   "defines no other one",
		`{{printf "%1000000d" 1}}`:                                  "unknown function printf: use one of metadata, cut, and",
		`{{call .Count}}`:                                           "unknown function call",
		"{{with .Items}}x{{end}}":                                   "with is not for these templates",
		"{{(index .Items 0).Title}}":                                "expected a field",
		"{{eq .Count .Key}}":                                        "incompatible types",
		"{{if gt .Count 200}}x{{end}}":                              "makes an empty text of 1 items",
		"{{if gt .Count 5}}{{eq .Count .Key}}{{end}}x":              "incompatible types",
		`{{range .Items}}{{metadata . 3}}{{end}}`:                   "correct the template",
	} {
		_, err := ParseMessage(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: found %v, expected %q", text, err, want)
		}
	}
}

// FuzzTemplates holds that every template that is read makes its texts soon and within
// the bounds.
func FuzzTemplates(f *testing.F) {
	f.Add("{{range $i, $x := .Items}}{{if $i}}, {{end}}{{$x.Title}}{{end}} and {{.More}}")
	f.Add(`{{range .Items}}{{metadata . "order.id"}}{{cut 5 .Title}}{{else}}{{len .Items}}{{end}}`)
	f.Add(`{{$x := .Key}}{{range .Items}}{{$x = .Title}}{{$x}}{{end}}`)
	f.Add(strings.Repeat("{{range .Items}}{{.Message}}{{end}}", 90))
	long := strings.Repeat("ü", MaxMessageRunes)
	titles := make([]string, MaxDigestItems)
	for i := range titles {
		titles[i] = long
	}
	d := news(titles...)
	f.Fuzz(func(t *testing.T, text string) {
		for bound, read := range map[int]func(string) (*Template, error){MaxTitleRunes: ParseTitle, MaxMessageRunes: ParseMessage} {
			made, err := read(text)
			if err != nil {
				continue
			}
			began := time.Now()
			found, err := made.Make(d)
			if n := utf8.RuneCountInString(found); err == nil && n > bound {
				t.Errorf("%d characters, expected at most %d", n, bound)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it takes %v", took)
			}
		}
	})
}

func TestDigestsHaveTheTextsOfTheirKey(t *testing.T) {
	title, _ := ParseTitle("{{.Count}} of {{.Key}}, {{len .Items}} shown")
	other, _ := ParseMessage("{{.More}} more for {{.User}}")
	p := Policy{Digests: map[string]DigestPolicy{"": {Show: 2, Title: title}, "orders": {Message: other}}}
	var items []*Notification
	for range 5 {
		items = append(items, &Notification{Title: "x"})
	}
	for key, want := range map[string]DigestMessage{
		"offers": {Key: "offers", Title: "5 of offers, 2 shown", Show: 2, More: 3},
		"orders": {Key: "orders", Message: "0 more for u", Show: 5},
	} {
		if found, err := p.DigestMessage(key, "u", items); found != want || err != nil {
			t.Errorf("%s: found %+v, %v, expected %+v", key, found, err, want)
		}
	}
	if found, err := (&Policy{}).DigestMessage("x", "u", items); found != (DigestMessage{Key: "x", Show: 5}) || err != nil {
		t.Errorf("without templates: %+v, %v", found, err)
	}
}
