package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// A cure is the program's: two programs have different ones for the same fault, so a package
// names what cures a fault by a [cure.Name], and the programs have the words for these names.
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
	must.OK(t, err)
	if len(variables) < 50 {
		t.Fatalf("the programs bind only %d variables: %q", len(variables), variables)
	}
	named := regexp.MustCompile("\\b(" + strings.Join(variables, "|") + ")\\b|`keyfold(-lite)? |\\bkeyfold (setup|failed|user|products)\\b")
	used, worded := map[string]bool{}, map[string]bool{}
	for room, all := range texts {
		for _, text := range all {
			switch outside := outsideCures.MatchString(room + "/"); {
			case !outside && named.MatchString(text):
				t.Errorf("%s names a variable or a command: let it name a cure.Name, and the program give this its word: %q", room, text)
			case !outside && cureName.MatchString(text):
				used[text] = true
			case wordsOf[room] && cureName.MatchString(text):
				worded[text] = true
			}
		}
	}
	if !maps.Equal(used, worded) {
		t.Errorf("the rooms name %q,\nand keyfold has words for %q", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(worded)))
	}
}

// cureName matches a [cure.Name], and wordsOf are the packages with keyfold's words.
var (
	cureName = regexp.MustCompile(`^[a-z]+(\.[A-Z][A-Za-z]+)+$`)
	wordsOf  = map[string]bool{"internal/settings": true, "cmd/keyfold/app": true}
)

// outsideCures matches the folders of programs, of their settings and of tests, and
// engine/causes: it is the one table of cures by cause, shared by all programs and shown in
// docs/RUNBOOK.md. It names the settings of its servers, and some commands.
var outsideCures = regexp.MustCompile(`^(cmd|engine/causes|internal/(settings|cli|testserver|openapitest)|proof|bench|tools|deploy|docs)/`)
