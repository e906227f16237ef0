package users

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"keyfold/engine"
)

// ExportFile writes profiles into a file that is complete or not there.
func ExportFile(path string, profiles iter.Seq2[*engine.Profile, error]) error {
	part, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // gone already where it was renamed
	if err := errors.Join(Export(part, profiles), part.Chmod(0o644), part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

// Export writes profiles as NDJSON documents.
func Export(to io.Writer, profiles iter.Seq2[*engine.Profile, error]) error {
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
