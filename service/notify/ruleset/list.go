package ruleset

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"keyfold/internal/cli"
)

// List is the sets that were published, newest first.
type List struct {
	Sets []Listed `json:"sets"`
}

// Listed is a set as the list has it.
type Listed struct {
	Version  int64     `json:"set_version"`
	InForce  bool      `json:"in_force"`
	Time     time.Time `json:"-"`
	At       string    `json:"published_at"`
	By       string    `json:"published_by"`
	Note     string    `json:"note"`
	Document string    `json:"document_version"` // the document's own name for itself
	Rules    int       `json:"rules"`
	Checksum string    `json:"checksum"` // SHA-256, in hexadecimal digits
}

// ListedOf reads of a document what every version of keyfold knows.
func ListedOf(version int64, text, checksum []byte, at time.Time, by, note string) Listed {
	var document struct {
		Version string            `json:"version"`
		Rules   []json.RawMessage `json:"rules"`
	}
	_ = json.Unmarshal(text, &document) // what it cannot say is left out
	return Listed{
		Version: version, Time: at, At: cli.At(at), By: by, Note: note,
		Document: document.Version, Rules: len(document.Rules), Checksum: hex.EncodeToString(checksum),
	}
}

// InForce returns the set in force, nil where the list has none.
func (l *List) InForce() *Listed {
	for i := range l.Sets {
		if l.Sets[i].InForce {
			return &l.Sets[i]
		}
	}
	return nil
}

// Print prints a line for each set.
func (l *List) Print(w *cli.Text) {
	for i := range l.Sets {
		s, mark := &l.Sets[i], " "
		if s.InForce {
			mark = "*"
		}
		w.Line("%s %4d  %s  %-12s  %s, version %s  %s", mark, s.Version, s.At, cli.Printable(s.By),
			cli.Count(int64(s.Rules), "rule"), cli.Printable(s.Document), cli.Printable(s.Note))
	}
}
