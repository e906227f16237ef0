package causes

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

var update = flag.Bool("update", false, "write docs/RUNBOOK.md")

const begin, end = "<!-- causes: go test ./engine/causes -update -->\n", "<!-- end of causes -->\n"

// The runbook's last part is the table, and each cause has its section there.
//
// Promise(security/causes)
func TestPage(t *testing.T) {
	const file = "../../docs/RUNBOOK.md"
	page, err := os.ReadFile(file)
	must.OK(t, err)
	before, rest, _ := strings.Cut(string(page), begin)
	written, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no part between %s and %s", file, begin, end)
	}
	if *update {
		must.OK(t, os.WriteFile(file, []byte(before+begin+document()+end+after), 0o644))
	} else if written != document() {
		t.Errorf("%s is not what the table says: go test ./engine/causes -update", file)
	}
}

func document() string {
	var text strings.Builder
	for _, r := range table {
		e := func(server string) *Error {
			return &Error{ID: r.id, Server: Server{server, "its setting"}, Said: "memory or disk"}
		}
		title := strings.ReplaceAll(string(r.id), "-", " ")
		fmt.Fprintf(&text, "### %s\n\n- **Means**: %s.\n", strings.ToUpper(title[:1])+title[1:], e("the server").Sentence())
		fmt.Fprintf(&text, "- **Do**: %s.\n", e("").Cure())
		for _, server := range slices.Sorted(maps.Keys(r.cures)) {
			fmt.Fprintf(&text, "- **%s**: %s.\n", server, e(server).Cure())
		}
		if r.lasts {
			text.WriteString("- **Until then**: a start ends with it.\n")
		}
		text.WriteString("\n")
	}
	return text.String()
}

// Rows have what is shown of them, and servers in them are known ones.
func TestRows(t *testing.T) {
	known := map[string]bool{}
	for _, s := range []Server{RabbitMQ, Streams, Management, MongoDB, MariaDB, PostgreSQL, SQLite, Database, Ledger, Redis, Repeats, EmbeddingAPI} {
		known[s.Name] = true
	}
	seen := map[ID]bool{}
	for _, r := range table {
		if seen[r.id] || r.sentence == "" || r.cure == "" {
			t.Errorf("%s is there twice, or lacks a sentence or a cure", r.id)
		}
		seen[r.id] = true
		for server := range r.cures {
			if !known[server] {
				t.Errorf("%s has a cure for %q, which is no server", r.id, server)
			}
		}
	}
	if got := rowOf("unknown"); got.id != Other {
		t.Errorf("an unknown cause is %+v", got)
	}
}
