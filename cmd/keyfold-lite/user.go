package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"keyfold/sink/sqlite"
)

type userCmd struct {
	Show   showCmd   `cmd:"" help:"Show a user's profile, last events and nearest products."`
	Export exportCmd `cmd:"" help:"Write all profiles as NDJSON, fields named as in the document store."`
}

// showCmd shows one user.
type showCmd struct {
	ID     int32 `arg:"" help:"The user's id."`
	Events int   `default:"10" help:"How many of the last events."`
	Near   int   `default:"10" help:"How many of the nearest products."`
}

// openFile opens the store of a data folder beside a running keyfold-lite.
func openFile(a *app) (*sqlite.Reader, error) {
	path := filepath.Join(a.data, databaseName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("there are no profiles in %s yet: run keyfold-lite first, or name its folder with --data", a.data)
	}
	return sqlite.OpenReader(path)
}

// Run prints the user.
func (c *showCmd) Run(a *app) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := newPortrait(a.ctx, file, c.ID, c.Near, c.Events)
	if err != nil {
		return err
	}
	if p.profile == nil {
		return fmt.Errorf("user %d has no profile in %s", c.ID, a.data)
	}
	if a.json {
		return json.NewEncoder(a.out).Encode(p.document())
	}
	w := &text{w: a.out}
	p.print(w)
	return w.err
}

// exportCmd writes every profile.
type exportCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Where to; - is standard output."`
}

// Run writes the profiles, ordered by user_id. A file is complete or not there.
func (c *exportCmd) Run(a *app) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	if c.File == "-" {
		return export(a.ctx, file, a.out)
	}
	part, err := os.CreateTemp(filepath.Dir(c.File), ".export-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // gone already where it was renamed
	if err := errors.Join(export(a.ctx, file, part), part.Chmod(0o644), part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), c.File)
}

func export(ctx context.Context, file *sqlite.Reader, to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<20)
	encode := json.NewEncoder(w)
	for p, err := range file.AllProfiles(ctx) {
		if err != nil {
			return err
		}
		if err := encode.Encode(documentOf(p)); err != nil {
			return err
		}
	}
	return w.Flush()
}
