package report

import (
	"errors"

	"keyfold/internal/cli"
)

// Flags say where a report goes beside standard output.
type Flags struct {
	File string `name:"report" placeholder:"FILE" help:"Also write the report as a page with plots, which needs no network."`
}

// Write writes the page where one is asked for, and prints the report. It returns the error of
// a criterion that is not met.
func (f Flags) Write(c *cli.Console, r *Report) error {
	var page error
	if f.File != "" {
		page = r.page().WriteFile(f.File)
	}
	return errors.Join(page, c.Emit(r, r.Text), r.Err())
}
