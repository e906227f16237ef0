package docs_test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// rabbit lists the folders of source/rabbit: each may import those before it.
var rabbit = []string{
	"source/rabbit", "source/rabbit/topology", "source/rabbit/partition", "source/rabbit/consume", "source/rabbit/deadletter",
}

// streams are the folders of source/stream.
var streams = []string{"source/stream", "source/stream/inhand", "source/stream/reader", "source/stream/writer"}

// rooms lists, for each folder of product code, the folders of keyfold that its
// packages may import, directly or not. Of the folders that hold a package, the
// longest one counts. All may import engine/cure, which imports none.
var rooms = map[string][]string{
	"engine":                      {"engine"},
	"engine/notify":               {"engine", "engine/notify"},
	"engine/profile":              {"engine", "engine/profile"},
	"shard":                       {"shard"},
	"source":                      {"engine", "engine/profile", "source"},
	"source/httpapi":              {"engine", "source/httpapi"}, // it serves both applications, and knows neither
	"source/ingest":               {"engine", "engine/profile", "source/httpapi", "source/ingest"},
	"source/rabbit":               {"engine", "engine/profile", "source/rabbit"},
	"source/rabbit/topology":      append(rabbit[:2:2], "engine", "engine/profile"),
	"source/rabbit/partition":     append(rabbit[:3:3], "engine", "engine/profile"),
	"source/rabbit/consume":       append(rabbit[:4:4], "engine", "engine/profile"),
	"source/rabbit/deadletter":    append(rabbit[:5:5], "engine", "engine/profile"),
	"source/stream":               {"engine", "engine/profile", "source/rabbit", "source/stream"},
	"source/stream/inhand":        {"engine", "engine/profile", "source/stream/inhand"},
	"source/stream/writer":        {"engine", "engine/backoff", "engine/profile", "engine/metric", "source/rabbit", "source/stream", "source/stream/writer"},
	"source/stream/reader":        append(rabbit[:4:4], append([]string{"engine", "engine/profile"}, streams...)...),
	"source/repeat":               {"engine", "engine/notify", "engine/profile", "source", "source/repeat"},
	"source/sample/notifications": {"engine", "engine/notify", "engine/profile", "source", "source/sample/notifications"},
	"sink":                        {"engine", "engine/profile", "sink"},
	"sink/ledger":                 {"engine", "engine/notify", "sink", "sink/ledger"},
	"sink/ledgertest":             {"engine", "engine/notify", "sink/ledger", "sink/ledgertest"},
	"sink/senders":                {"engine", "engine/notify", "sink/senders"},
	"internal":                    {"engine", "engine/profile", "internal", "shard", "source"},
	"internal/testserver":         {"engine", "engine/profile", "internal/testserver", "source", "source/rabbit"},
	"docs":                        {"docs"},
	"service/daemon":              {"engine", "internal", "service/daemon", "shard"},
	"service/status":              {"engine", "engine/profile", "internal", "service/status", "shard"},
	"service/failed":              {"engine", "engine/profile", "internal", "service/failed", "shard"},
	"service/dashboard": {
		"docs", "engine", "engine/notify", "engine/profile", "internal", "service/dashboard", "service/failed", "service/notify", "service/profile", "service/status",
		"shard", "source", "source/httpapi",
	},
	"service/profile": append(append(rabbit[:5:5], streams...),
		"engine", "engine/profile", "internal", "service/daemon", "service/profile", "shard", "source", "source/httpapi"),
	"service/notify": append(rabbit[:5:5],
		"engine", "engine/notify", "engine/profile", // the latter by the taste terms of scores, settings and source/rabbit
		"internal", "service/daemon", "service/notify", "shard", "sink", "sink/ledger",
		"sink/senders", "source/httpapi"),
	"cmd": append(append(rabbit[:5:5], streams...),
		"cmd", "engine", "engine/notify", "engine/profile", "docs", "internal", "service/daemon", "service/dashboard", "service/failed", "service/notify", "service/profile", "service/status",
		"shard", "sink", "sink/ledger", "sink/senders", "source", "source/httpapi", "source/ingest",
		"source/repeat", "source/sample/notifications"),
}

func TestRoomsDoNotImportTheirNeighbours(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`,
		"./docs", "./engine/...", "./shard/...", "./source/...", "./sink/...", "./internal/...", "./service/...", "./cmd/...")
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
			if strings.HasPrefix(path, "keyfold/") && path != "keyfold/engine/cure" && !slices.Contains(rooms[room], roomOf(path)) {
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

// Packages are named as their folders, so that no import needs another name, and nothing
// imports cmd: what two programs share is in internal or service.
func TestPackagesAreNamedAsTheirFolders(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.Name}} {{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	command.Dir = ".."
	listed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listed)
	}
	for line := range strings.Lines(string(listed)) {
		words := strings.Fields(line)
		name, importer := words[0], words[1]
		if name != "main" && name != path.Base(importer) {
			t.Errorf("%s is named %s", importer, name)
		}
		for _, imported := range words[2:] {
			if strings.HasPrefix(imported, "keyfold/cmd/") && !strings.HasPrefix(importer, "keyfold/cmd/") {
				t.Errorf("%s must not import %s", importer, imported)
			}
		}
	}
}
