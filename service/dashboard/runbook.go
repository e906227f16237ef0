package dashboard

import (
	"html/template"
	"net/url"
	"strings"

	"keyfold/docs"
	"keyfold/source/httpapi"
)

// section is a part of the runbook.
type section struct {
	Anchor string
	Title  string
	Level  int // of the heading: 1 to 3
	Body   template.HTML
	words  string // of title and text, in lower case
}

// manual is the runbook, read once.
type manual struct {
	sections []section
	by       map[string]*section
}

func readManual(base string) *manual {
	m := &manual{sections: sections(docs.Runbook, base), by: map[string]*section{}}
	for i := range m.sections {
		m.by[m.sections[i].Anchor] = &m.sections[i]
	}
	return m
}

// find returns a section by its anchor, nil where there is none.
func (m *manual) find(anchor string) *section { return m.by[anchor] }

// runbookView is the runbook, or what of it has the words that were searched.
type runbookView struct {
	Query    string
	Sections []section
	Contents []section // to go to; nil in a search
}

func (d *Dashboard) runbook(r *httpapi.Request) *httpapi.Answer {
	v := runbookView{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	v.Sections = d.manual.search(v.Query)
	if v.Query == "" {
		v.Contents = v.Sections
	}
	return d.page(r, "runbook", "Runbook", d.watch.current(r.Context()), v)
}

// search returns the sections that have all of the words.
func (m *manual) search(query string) (found []section) {
	words := strings.Fields(strings.ToLower(query))
	for _, s := range m.sections {
		has := true
		for _, w := range words {
			has = has && strings.Contains(s.words, w)
		}
		if has && (len(words) == 0 || s.Level > 2) {
			found = append(found, s)
		}
	}
	return found
}

// search leads to what the field of every page asks for.
func (d *Dashboard) search(r *httpapi.Request) *httpapi.Answer {
	if to := d.found(r.URL.Query().Get("q")); to != "" {
		return d.lead(to)
	}
	return d.lead("/runbook?" + url.Values{"q": {r.URL.Query().Get("q")}}.Encode())
}
