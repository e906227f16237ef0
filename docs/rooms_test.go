package docs_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rooms lists, for each folder of product code, the folders of keyfold that its
// packages may import, directly or not. Of the folders that hold a package, the
// longest one counts.
var rooms = map[string][]string{
	"engine":                      {"engine"},
	"engine/notify":               {"engine", "engine/notify"},
	"engine/taste":                {"engine", "engine/taste"},
	"shard":                       {"shard"},
	"source":                      {"engine", "source"},
	"sink":                        {"engine", "sink"},
	"sink/ledger":                 {"engine", "engine/notify", "sink", "sink/ledger"},
	"sink/ledgertest":             {"engine", "engine/notify", "sink/ledger", "sink/ledgertest"},
	"sink/message":                {"engine", "engine/notify", "sink/message"},
	"sink/ndjson":                 {"engine", "engine/notify", "sink/message", "sink/ndjson"},
	"sink/webhook":                {"engine", "engine/notify", "sink/message", "sink/webhook"},
	"source/ingest/repeat":        {"engine", "engine/notify", "source", "source/ingest/repeat"},
	"source/sample/notifications": {"engine", "engine/notify", "source", "source/sample/notifications"},
	"cmd": {
		"cmd", "engine", "engine/notify", "engine/taste", "shard", "sink", "sink/ledger", "sink/ndjson", "sink/message",
		"sink/webhook", "source", "source/ingest/repeat", "source/sample/notifications",
	},
}

func TestRoomsDoNotImportTheirNeighbours(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`,
		"./engine/...", "./shard/...", "./source/...", "./sink/...", "./cmd/...")
	command.Dir = ".."
	listed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listed)
	}
	met := map[string]bool{}
	for line := range strings.Lines(string(listed)) {
		imports := strings.Fields(line)
		room := roomOf(imports[0])
		met[room] = true
		for _, path := range imports[1:] {
			if strings.HasPrefix(path, "keyfold/") && !slices.Contains(rooms[room], roomOf(path)) {
				t.Errorf("%s must not import %s", imports[0], path)
			}
		}
	}
	if len(met) != len(rooms) {
		t.Errorf("packages were listed in %d of %d folders", len(met), len(rooms))
	}
}

// roomOf returns the folder of rooms that holds a package, "" for none.
func roomOf(path string) (room string) {
	for folder := range rooms {
		if strings.HasPrefix(path+"/", "keyfold/"+folder+"/") && len(folder) > len(room) {
			room = folder
		}
	}
	return room
}
