package dashboard

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"keyfold/internal/cli"
	"keyfold/source/httpapi"
)

// layout is what stands around a page.
type layout struct {
	Title    string
	Base     string // before each path
	Path     string // of the page, without the base
	Nav      []link
	Query    string // in the search field
	Search   string // what the search field finds
	Problems int    // that need a person
	Login    bool   // a session can be ended
	Bare     bool   // without navigation, as the login page
	Acts     bool   // the viewer is offered actions
	Renew    bool   // the page says that something is under way: it renews itself without a script too
	Unlock   string // the machine that the viewer may be offered actions on; "": none
	Here     string // the page with its query, where actions lead back to
	Version  string
	Data     any // what the page shows
}

// based is a value for a part of a page that has links, with what stands before their paths.
type based struct {
	Base string
	Of   any
}

// underWay is what a page shows that may not be there yet.
type underWay interface{ underWay() bool }

type link struct {
	Path, Name, Key string
	Here            bool
	Count           int // beside the name; 0: none
}

// foot is what changes with each look, though nothing else does.
type foot struct {
	At      time.Time // of the look; zero: there was none
	Took    time.Duration
	Version string
}

var funcs = template.FuncMap{
	"text":     text,
	"cell":     cell,
	"line":     line,
	"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
	"when":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"id":       identifier,
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"marked":   marked,
	"figures":  figuresIn,
	"jsonline": func(raw json.RawMessage) string { return text(string(raw)) },
	"based":    func(base string, of any) based { return based{base, of} },
}

// Characters of a text, and of one in a table, that are shown: what wrote it may have written more.
const maxText, maxCell = 600, 100

// cell is [text] for what is mostly short.
func cell(s string) string { return text(cli.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxCell)) }

// line is [text] for a line of a list, of which a page has many.
func line(s string) string { return text(cli.Shorten(strings.ToValidUTF8(s, "\uFFFD"), 2*maxCell)) }

// text makes a text of another program fit to be shown: what is not valid, and what would change
// the direction or the place of other text, is replaced, and what is long is cut.
func text(s string) string {
	s = cli.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxText)
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// tagsOfCell is about how many bytes stand around the text of a cell.
const tagsOfCell = 50

// rowWeight is about how many bytes a row of a table has on a page.
func rowWeight(row []string) (n int) {
	for _, c := range row {
		n += tagsOfCell + escaped(cell(c))
	}
	return n
}

// fits returns how many of all have room in so many bytes, and takes theirs away.
func fits[T any](left *int, all []T, weight func(T) int) int {
	for i, one := range all {
		if *left -= weight(one); *left < 0 {
			return i
		}
	}
	return len(all)
}

// identifier makes an id of an element of any text.
func identifier(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "i" + base64.RawURLEncoding.EncodeToString(sum[:9])
}

// marked shows what stands between backticks, such as a command, as code.
func marked(s string) template.HTML {
	escaped := template.HTMLEscapeString(text(s))
	return template.HTML(inCode.ReplaceAllString(escaped, "<code>$1</code>")) //nolint:gosec // it was escaped
}

// figuresIn reports whether a column of a table has figures: they stand to the right.
func figuresIn(rows [][]string, column int) bool {
	if column == 0 {
		return false
	}
	for _, row := range rows {
		if column >= len(row) || strings.Trim(row[column][:min(1, len(row[column]))], "-<≤0123456789") != "" {
			return false
		}
	}
	return true
}

// templates are the pages by their files' names. Other commands of the program do not parse them.
var templates = sync.OnceValue(func() map[string]*template.Template {
	shared := template.Must(template.New("layout.html").Funcs(funcs).ParseFS(files, "page/layout.html", "page/parts.html"))
	entries, _ := files.ReadDir("page")
	pages := map[string]*template.Template{}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".html"); name != "layout" && name != "parts" {
			pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(files, "page/"+e.Name()))
		}
	}
	return pages
})

// page answers with a page.
func (d *Dashboard) page(r *httpapi.Request, name, title string, seen *snapshot, data any) *httpapi.Answer {
	l := layout{
		Title: title, Base: d.config.Path, Path: strings.TrimPrefix(r.URL.Path, d.config.Path), Query: r.URL.Query().Get("q"),
		Search: d.searches(),
		Login:  d.config.Sessions != nil, Acts: d.acts(r), Data: data,
	}
	if way, ok := data.(underWay); ok {
		l.Renew = way.underWay()
	}
	l.Here = d.within((&url.URL{Path: l.Path, RawQuery: r.URL.RawQuery}).String())
	if d.config.Actions && !d.asksNone() && !l.Acts {
		l.Unlock = cmp.Or(d.config.Machine, "this machine")
	}
	if seen.Report != nil {
		l.Problems = len(seen.Report.Problems)
	}
	for _, to := range d.routes {
		if to.name == "" || !r.May(to.scope) {
			continue
		}
		one := link{Path: to.path, Name: to.name, Key: to.key, Here: to.path == l.Path || strings.HasPrefix(l.Path, to.path+"/") || to.path == "/" && l.Path == ""}
		switch to.path {
		case "/alerts":
			one.Count = l.Problems
		case failuresPath:
			one.Count = d.failing(seen.Report)
		}
		l.Nav = append(l.Nav, one)
	}
	return render(r, http.StatusOK, name, l, foot{seen.At, seen.Took, d.config.Version})
}

// render executes a page. Its ETag is of all but the foot: the time of a look is no change of
// the page, and is told by a header.
func render(r *httpapi.Request, status int, name string, l layout, f foot) *httpapi.Answer {
	body, end := draw(name, l, f)
	a := answer(r, status, append(body, end...), etag(body))
	if !f.At.IsZero() {
		a.Header.Set("Keyfold-Looked", f.At.UTC().Format(time.RFC3339))
	}
	return a
}

func draw(name string, l layout, f foot) (body, end []byte) {
	var page, bottom bytes.Buffer
	t := templates()[name]
	err := t.ExecuteTemplate(&page, "layout.html", l)
	if err == nil {
		err = t.ExecuteTemplate(&bottom, "foot", f)
	}
	if err != nil { // a fault of the page itself, which its tests meet
		return fmt.Appendf(nil, "<!doctype html><title>keyfold</title><p>This page cannot be shown: %s</p>", template.HTMLEscapeString(err.Error())), nil
	}
	return page.Bytes(), bottom.Bytes()
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// answer sends a body, or says that it is the one that the browser has.
func answer(r *httpapi.Request, status int, body []byte, tag string) *httpapi.Answer {
	a := &httpapi.Answer{Status: status, Page: body, Header: http.Header{"Etag": {tag}}}
	if status == http.StatusOK && strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/") == tag {
		a.Status, a.Page = http.StatusNotModified, []byte{}
	}
	return a
}

// inWords shows a refusal to a person. One without a token is shown the login form.
func (d *Dashboard) inWords(r *http.Request, a *httpapi.Answer) *httpapi.Answer {
	refusal, _ := a.Body.(httpapi.Refusal)
	l := layout{Title: http.StatusText(a.Status), Base: d.config.Path, Path: r.URL.Path, Bare: true, Data: refusal.Errors[0].Error}
	name := "refusal"
	if a.Status == http.StatusUnauthorized && d.config.Sessions != nil {
		name, l.Title, l.Data = "login", "Log in", loginView{Next: d.next(r)}
	}
	body, end := draw(name, l, foot{})
	a.Page = slices.Concat(body, end)
	return withHeaders(a)
}
