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

	"keyfold/engine"
)

// Export writes profiles as NDJSON documents, to stdout where path is "-", and
// otherwise into a file that is complete or not there, readable by its owner only.
// What is no regular file (a pipe, a device) is written to as it is; a link's
// target is what is replaced.
func Export(path string, stdout io.Writer, profiles iter.Seq2[*engine.Profile, error]) error {
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

func export(to io.Writer, profiles iter.Seq2[*engine.Profile, error]) error {
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
