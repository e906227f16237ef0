package chart

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// Size of a cell, in CSS pixels. A row of eight fits a phone.
const cellW, cellH, cellsPerRow = 40, 24, 8

// Cell is one part of a whole, which belongs to a group.
type Cell struct {
	Name string
	Mark string // of its group, beside the name; "": it belongs to none
	Hue  int    // of the group: the colours of series, again and again
}

// Cells shows which part of a whole belongs to whom.
type Cells struct {
	Title string // read out in place of the picture
	Cells []Cell
}

// SVG draws the cells. What belongs to none has no colour.
func (c Cells) SVG() template.HTML {
	const hues = 4
	rows := (len(c.Cells) + cellsPerRow - 1) / cellsPerRow
	var w strings.Builder
	fmt.Fprintf(&w, `<svg class="cells" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%[3]s">`, cellW*cellsPerRow, cellH*rows, html.EscapeString(c.Title))
	for i, cell := range c.Cells {
		x, y, class := cellW*(i%cellsPerRow), cellH*(i/cellsPerRow), "grid"
		if cell.Mark != "" {
			class = fmt.Sprint("s", cell.Hue%hues)
		}
		fmt.Fprintf(&w, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2" fill="none" stroke-width="2"/>`, class, x+2, y+2, cellW-4, cellH-4)
		fmt.Fprintf(&w, `<text class="label" x="%d" y="%d" text-anchor="middle" font-size="11">%s</text>`, x+cellW/2, y+cellH/2+4, html.EscapeString(strings.TrimSpace(cell.Name+" "+cell.Mark)))
	}
	w.WriteString(`</svg>`)
	return template.HTML(w.String()) //nolint:gosec // all text in it is escaped above
}
