package users

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
)

// Export writes profiles as NDJSON documents, to standard output where path is "-",
// and otherwise into a file that is complete or not there, readable by its owner only.
// What is no regular file (a pipe, a device) is written to as it is; a link's
// target is what is replaced. It says on standard error how many there were.
func Export(path string, s cli.Streams, profiles iter.Seq2[*profile.Profile, error]) error {
	var live, erased int64
	counted := func(yield func(*profile.Profile, error) bool) {
		for p, err := range profiles {
			switch {
			case err != nil:
			case p.Erased():
				erased++
			default:
				live++
			}
			if !yield(p, err) {
				return
			}
		}
	}
	if err := exportTo(path, s.Stdout, counted); err != nil {
		return err
	}
	if path == "-" {
		path = "standard output"
	}
	tombstones := ""
	if erased > 0 {
		tombstones = " and " + cli.Count(erased, "tombstone")
	}
	_, err := fmt.Fprintf(s.Stderr, "%s%s written to %s\n", cli.Count(live, "profile"), tombstones, path)
	return err
}

func exportTo(path string, stdout io.Writer, profiles iter.Seq2[*profile.Profile, error]) error {
	if path == "-" {
		return export(stdout, profiles)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(export(f, profiles), f.Close())
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: its folder must exist, and this user may write in it: %w", path, err)
	}
	defer os.Remove(part.Name()) // gone already where it was renamed
	if err := errors.Join(export(part, profiles), part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

func export(to io.Writer, profiles iter.Seq2[*profile.Profile, error]) error {
	w := bufio.NewWriterSize(to, 1<<20)
	encode := json.NewEncoder(w)
	for p, err := range profiles {
		if err != nil {
			return err
		}
		if err := encode.Encode(DocumentOf(p)); err != nil {
			return err
		}
	}
	return w.Flush()
}
