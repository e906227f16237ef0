package notify

import "text/template"

// Template makes a text of a digest.
type Template struct {
	Text   string // as it is written
	parsed *template.Template
}
