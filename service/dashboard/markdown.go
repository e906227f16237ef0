package dashboard

import (
	"html"
	"html/template"
	"path"
	"regexp"
	"strings"
)

// markdown renders for pages below a base.
type markdown struct{ base string }

// sections cuts a page of Markdown at its headings. It knows what
// docs/RUNBOOK.md is written with: paragraphs, lists, indented code, tables, and in a line code,
// bold and links.
func sections(page, base string) (all []section) {
	m := markdown{base}
	var lines []string
	end := func() {
		if n := len(all); n > 0 {
			all[n-1].Body = m.blocks(lines)
			all[n-1].words = strings.ToLower(all[n-1].Title + " " + strings.Join(lines, " "))
		}
		lines = nil
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n ")
		marks := len(line) - len(strings.TrimLeft(line, "#"))
		if marks > 0 && marks < 4 && strings.HasPrefix(line[marks:], " ") {
			end()
			title := strings.TrimSpace(line[marks:])
			all = append(all, section{Anchor: anchorOf(title), Title: title, Level: marks})
			continue
		}
		if !strings.HasPrefix(line, "<!--") {
			lines = append(lines, line)
		}
	}
	end()
	return all
}

var noAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchorOf is the anchor that a forge gives a heading.
func anchorOf(title string) string {
	return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

var (
	bullet   = regexp.MustCompile(`^- (.*)$`)
	numbered = regexp.MustCompile(`^[0-9]+\. (.*)$`)
)

// blocks renders the lines of a section. Each block has a rule that says whether a line begins it
// and one that says whether the next line goes on with it.
func (m markdown) blocks(lines []string) template.HTML {
	var w strings.Builder
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case line == "":
			i++
		case strings.HasPrefix(line, "    "):
			i = code(&w, lines, i)
		case strings.HasPrefix(line, "|"):
			i = m.rows(&w, lines, i)
		case bullet.MatchString(line):
			i = m.list(&w, lines, i, "ul", bullet)
		case numbered.MatchString(line):
			i = m.list(&w, lines, i, "ol", numbered)
		default:
			i = m.paragraph(&w, lines, i)
		}
	}
	return template.HTML(w.String()) //nolint:gosec // all text in it is escaped by inline
}

func code(w *strings.Builder, lines []string, i int) int {
	first := i
	for ; i < len(lines) && (strings.HasPrefix(lines[i], "    ") || lines[i] == ""); i++ {
		lines[i] = strings.TrimPrefix(lines[i], "    ")
	}
	w.WriteString(`<pre tabindex="0"><code>` + html.EscapeString(strings.TrimSpace(strings.Join(lines[first:i], "\n"))) + "</code></pre>")
	return i
}

func (m markdown) rows(w *strings.Builder, lines []string, i int) int {
	w.WriteString(`<table class="words">`)
	for first := true; i < len(lines) && strings.HasPrefix(lines[i], "|"); i++ {
		if strings.Trim(lines[i], "|-: ") == "" {
			continue
		}
		cell := "td"
		if first {
			cell = "th"
		}
		first = false
		w.WriteString("<tr>")
		for text := range strings.SplitSeq(strings.Trim(lines[i], "|"), "|") {
			w.WriteString("<" + cell + ">" + m.inline(strings.TrimSpace(text)) + "</" + cell + ">")
		}
		w.WriteString("</tr>")
	}
	w.WriteString("</table>")
	return i
}

func (m markdown) list(w *strings.Builder, lines []string, i int, tag string, item *regexp.Regexp) int {
	w.WriteString("<" + tag + ">")
	for i < len(lines) {
		found := item.FindStringSubmatch(lines[i])
		if found == nil {
			break
		}
		text := found[1]
		for i++; i < len(lines) && strings.HasPrefix(lines[i], "  ") && !item.MatchString(lines[i]); i++ {
			text += " " + strings.TrimSpace(lines[i])
		}
		w.WriteString("<li>" + m.inline(text) + "</li>")
	}
	w.WriteString("</" + tag + ">")
	return i
}

func (m markdown) paragraph(w *strings.Builder, lines []string, i int) int {
	first := i
	for ; i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "    ") && !strings.HasPrefix(lines[i], "|") && (i == first || !bullet.MatchString(lines[i])); i++ {
	}
	w.WriteString("<p>" + m.inline(strings.Join(lines[first:i], " ")) + "</p>")
	return i
}

var (
	inCode  = regexp.MustCompile("`([^`]+)`")
	inBold  = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	inLinks = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
)

// inline renders what a line may have. Code is set aside first: nothing in it is markup.
func (m markdown) inline(text string) string {
	var codes []string
	text = inCode.ReplaceAllStringFunc(text, func(one string) string {
		codes = append(codes, "<code>"+html.EscapeString(strings.Trim(one, "`"))+"</code>")
		return "\x00"
	})
	text = html.EscapeString(text)
	text = inBold.ReplaceAllString(text, "<strong>$1</strong>")
	text = inLinks.ReplaceAllStringFunc(text, func(one string) string {
		found := inLinks.FindStringSubmatch(one)
		if anchor, here := strings.CutPrefix(found[2], "#"); here {
			return `<a href="` + m.base + `/runbook#` + anchor + `">` + found[1] + `</a>`
		}
		if found[1] == strings.TrimPrefix(found[2], "../") {
			return found[1]
		}
		return found[1] + ` <span class="soft">(` + strings.TrimPrefix(path.Clean("docs/"+found[2]), "/") + `)</span>`
	})
	for _, one := range codes {
		text = strings.Replace(text, "\x00", one, 1)
	}
	return text
}
