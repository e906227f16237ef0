package decisions

import (
	"errors"
	"fmt"

	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
)

// intake stores preferences of a file.
type intake[P Program] struct {
	File   string `arg:"" help:"NDJSON, plain or gzip; - for stdin."`
	DryRun bool   `name:"dry-run" help:"Check all lines and count what would be stored."`
}

// Help is the long text.
func (c *intake[P]) Help() string {
	return fmt.Sprintf(`A line is a user: {"user_id":"anna","zone":"Europe/Berlin",...} with the members of preferences, as "user set" takes
them. They replace the user's; attributes stay where a line does not name them. Each line at fault is named on standard
error with its number and every fault, the others are stored, and the exit code is 1. A second run changes nothing.
Preferences of users who were erased are counted and not kept.

Examples:
  %[1]s user import users.ndjson --dry-run
  zcat users.ndjson.gz | %[1]s user import -`, textsOf[P]().Command)
}

func (c *intake[P]) Check(p P) error { return p.CheckLedger() }

// maxNamed bounds the lines at fault that are named.
const maxNamed = 100

// imported is the report.
type imported struct {
	File   string `json:"file"`
	DryRun bool   `json:"dry_run"`
	preference.Imported
}

// Run imports the file.
func (c *intake[P]) Run(p P) (err error) {
	in, err := p.OpenInput(c.File)
	if err != nil {
		return fmt.Errorf("%w (name a file of NDJSON, plain or gzip, or - for standard input)", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	report := imported{File: in.Name, DryRun: c.DryRun}
	bar := p.Progress("importing "+in.Name, in.Size, in.Read)
	err = p.ChangePreferences(func(s preference.Store) (err error) {
		named := 0
		i := preference.Import{Store: preference.Follow(s), DryRun: c.DryRun, Refuse: func(line int64, faults preference.Faults) {
			if named++; named == maxNamed+1 {
				p.Tell("%s has more lines at fault: they are counted", in.Name)
			}
			for _, f := range faults {
				if named <= maxNamed {
					p.Tell("%s:%d: %s", in.Name, line, cli.Printable(f.Text))
				}
			}
		}}
		report.Imported, err = i.Run(p.Context(), in)
		return err
	})
	bar.Done()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s stored; run the same command again: what is stored already is not changed", in.Name, err, cli.Count(report.Stored, "user"))
	}
	if err := p.Emit(&report, func(w *cli.Text) { report.Print(w, c.DryRun) }); err != nil {
		return err
	}
	if report.Refused > 0 {
		return fmt.Errorf("%s refused: correct and import them again", cli.Count(report.Refused, "line"))
	}
	return nil
}
