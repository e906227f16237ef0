package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// cures counts, for each package that is no program's, the texts in it that name a
// variable or a command of a program. A cure is the program's: two programs have
// different ones for the same fault, so a package names the fault and its own fields. The
// numbers are what is left to move; none may grow.
var cures = map[string]int{
	"engine":                    1,
	"engine/profile":            3,
	"engine/profile/processor":  5,
	"internal/shutdown":         2,
	"service/daemon":            1,
	"service/notify/published":  1,
	"service/notify/ruleset":    4,
	"service/profile/embedding": 6,
	"service/profile/products":  1,
	"service/profile/worker":    2,
	"shard":                     1,
	"sink/ledger/postgres":      6,
	"sink/mongodb":              24,
	"sink/sqlite":               1,
	"source/httpapi":            15,
	"source/ingest":             1,
	"source/outbox":             31,
	"source/rabbit":             2,
	"source/rabbit/consume":     2,
	"source/rabbit/partition":   1,
	"source/rabbit/topology":    1,
	"source/repeat":             3,
	"source/vector/openai":      5,
	"source/vector/rediscache":  4,
}

func TestOnlyProgramsNameVariablesAndCommands(t *testing.T) {
	texts := map[string][]string{} // by package
	var variables []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		room := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		tags := map[*ast.BasicLit]bool{}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.Field:
				if n.Tag != nil {
					tags[n.Tag] = true
					tag, _ := strconv.Unquote(n.Tag.Value)
					if name := reflect.StructTag(tag).Get("env"); name != "" {
						variables = append(variables, name)
					}
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && !tags[n] {
					text, _ := strconv.Unquote(n.Value)
					texts[room] = append(texts[room], text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(variables) < 50 {
		t.Fatalf("the programs bind only %d variables: %q", len(variables), variables)
	}
	named := regexp.MustCompile("\\b(" + strings.Join(variables, "|") + ")\\b|`keyfold(-lite)? ")
	for room, all := range texts {
		if outsideCures.MatchString(room + "/") {
			continue
		}
		var found []string
		for _, text := range all {
			if named.MatchString(text) {
				found = append(found, text)
			}
		}
		if len(found) > cures[room] {
			t.Errorf("%s has %d texts that name a variable or a command, at most %d may: let the program name it, "+
				"as settings.Named does: %q", room, len(found), cures[room], found)
		}
		if len(found) < cures[room] {
			t.Errorf("%s has %d texts left that name a variable or a command: lower its number in cures", room, len(found))
		}
	}
	for room := range cures {
		if texts[room] == nil {
			t.Errorf("there is no package %s: take it out of cures", room)
		}
	}
}

// outsideCures matches the folders of programs, of their settings and of tests, and
// engine/causes: it is the one table of cures by cause, shared by all programs and shown in
// docs/RUNBOOK.md. It names the settings of its servers, and some commands.
var outsideCures = regexp.MustCompile(`^(cmd|engine/causes|internal/(settings|cli|testserver|openapitest)|proof|bench|tools|deploy|docs)/`)
