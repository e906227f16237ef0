package chart

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
)

// Page is one self-contained HTML file: it asks nothing of a network.
type Page struct {
	Title    string
	Lead     []string // sentences below the title
	Sections []Section
}

// Section is a part of a page.
type Section struct {
	Title string
	Text  string
	Chart template.HTML // "" for none
	Table *Table        // nil for none
}

// Table is a table whose first column names its rows.
type Table struct {
	Head []string
	Rows [][]string
}

// words is above the length of what is a figure.
const words = 24

// Class tells a column of words from one of figures.
func (t Table) Class(column int) string {
	for _, row := range t.Rows {
		if column > 0 && column < len(row) && len(row[column]) > words {
			return "words"
		}
	}
	return "figures"
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// WriteFile writes the page into a file.
func (p Page) WriteFile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(p.Write(file), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Write writes the page.
func (p Page) Write(w io.Writer) error { return pageTemplate.Execute(w, p) }
